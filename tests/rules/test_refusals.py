"""Objects that an API server quotes appear neither in errors nor in logs: they may hold secrets."""

import pytest

from echelon.client.errors import Invalid
from echelon.rules.refusals import without_objects

# as a real API server words it when it refuses a patch
REAL = (
    ' "" is invalid: patch: Invalid value: "{\\"kind\\":\\"Work\\",\\"spec\\":{\\"data\\":{\\"p\\":\\"s3cret\\"}}}": '
    'spec.workload.manifests[0].metadata: Invalid value: {"annotations":"plain","name":"s3cret"}: json: cannot unmarshal'
    " string into Go struct field ObjectMeta.annotations of type map[string]string"
)


def test_what_a_real_server_quotes_is_left_out_and_the_reason_stays():
    shown = without_objects(REAL)
    assert "s3cret" not in shown
    assert shown.endswith(
        "json: cannot unmarshal string into Go struct field ObjectMeta.annotations of type map[string]string"
    )
    assert str(Invalid(422, {"message": REAL})) == shown


@pytest.mark.parametrize(
    "text",
    [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        'metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case characters',
        'spec.selector: Invalid value: v1.LabelSelector{MatchLabels:map[string]string{"a":"b"}}: field is immutable',
        "",
    ],
)
def test_short_values_stay_they_say_what_is_wrong(text):
    assert without_objects(text) == text
