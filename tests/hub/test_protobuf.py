import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.protobuf import MAGIC, decode

# What kubectl sent for: create deployment d --image=example.com/i:1 --replicas=0 --port=80, and so on.
SENT = {
    "deployment": "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErYBChsKAWQSABoAIgAqADIAOABCAFoICgNhcHASAWQSiAEIABIKCggKA2FwcBIBZBpwChoKABIAGgAiACoAMgA4AEIAWggKA2FwcBIBZBJSEjQKAWkSD2V4YW1wbGUuY29tL2k6MSoAMgoKABAAGFAiACoAQgBqAHIAgAEAiAEAkAEAogEAGgAyAEIASgBSAFgAYABoAIIBAIoBAJoBAMIBACICCgAoADgAGgwIABAAGAAgACgAOAAaACIA",
    "service": "azhzAAoNCgJ2MRIHU2VydmljZRJiChsKAXMSABoAIgAqADIAOABCAFoICgNhcHASAXMSPwobCgc4MC04MDgwEgNUQ1AYUCIHCAAQkD8aACgAEggKA2FwcBIBcxoAIghOb2RlUG9ydDoAQgBSAFoAYABoABoCCgAaACIA",
    "budget": "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSNgoRCgFwEgAaACIAKgAyADgAQgASFQoJCAEQABoDNTAlEggKBgoBYRIBYhoKCAAYACAAKAAwABoAIgA=",
    "secret": "azhzAAoMCgJ2MRIGU2VjcmV0Eh0KEQoBcxIAGgAiACoAMgA4AEIAEgYKAWESAWIaABoAIgA=",
    "quota": "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRIkChEKAXESABoAIgAqADIAOABCABINCgsKBHBvZHMSAwoBNRoAGgAiAA==",
}


def sent(name: str) -> dict:
    return decode(base64.b64decode(SENT[name]))


def test_a_deployment_is_what_kubectl_meant() -> None:
    made = sent("deployment")
    assert (made["apiVersion"], made["kind"]) == ("apps/v1", "Deployment")
    assert made["metadata"] == {"name": "d", "labels": {"app": "d"}}
    assert made["spec"]["selector"] == {"matchLabels": {"app": "d"}}
    assert made["spec"]["template"]["spec"]["containers"] == [
        {"name": "i", "image": "example.com/i:1", "ports": [{"containerPort": 80}], "resources": {}}
    ]


def test_zero_counts_where_the_field_is_a_pointer_and_says_nothing_elsewhere() -> None:
    spec = sent("deployment")["spec"]
    assert spec["replicas"] == 0
    assert "minReadySeconds" not in spec


def test_integers_or_strings_keep_their_type() -> None:
    assert sent("service")["spec"]["ports"][0]["targetPort"] == 8080
    assert sent("budget")["spec"]["minAvailable"] == "50%"


def test_bytes_become_base64_and_quantities_text() -> None:
    assert sent("secret")["data"] == {"a": base64.b64encode(b"b").decode()}
    assert sent("quota")["spec"]["hard"] == {"pods": "5"}


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_a_value_error(rubbish: bytes) -> None:
    for body in (rubbish, MAGIC + rubbish):
        try:
            assert isinstance(decode(body), dict)
        except ValueError:
            continue


@given(st.sampled_from(sorted(SENT)), st.data())
def test_a_damaged_body_is_an_object_or_a_value_error(name: str, data: st.DataObject) -> None:
    body = bytearray(base64.b64decode(SENT[name]))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(body[: data.draw(st.integers(at, len(body)))]))
    except ValueError:
        return


def test_a_kind_without_such_a_form_is_refused() -> None:
    with pytest.raises(ValueError, match=r'no kind "Thing" is registered for version "example\.com/v1"'):
        decode(MAGIC + b"\x0a\x17\x0a\x0eexample.com/v1\x12\x05Thing")
