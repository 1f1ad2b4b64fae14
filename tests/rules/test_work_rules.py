"""What is decided about a Work on its member, by example and property (scenarios G27, G29 to G31)."""

import copy
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.placement import PatchDetail
from echelon.api.work import Work
from echelon.rules import gojson
from echelon.rules.apply import plan_apply
from echelon.rules.apply_report import MAX_WORK_BYTES, Processed, applied_status, report
from echelon.rules.apply_task import Create, Refused, Result, Task, Write, owner_reference
from echelon.rules.apply_write import last_applied_text
from echelon.rules.available import Availability
from echelon.rules.member_manifest import compared, identity_of, sanitised, spec_hash
from echelon.rules.waves import LAST_WAVE, find_left_overs, read_manifests, wave_of, wave_of_kind
from echelon.rules.work_apply import MAX_RETRY_S, default_strategy, retry_delay_s

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def work(*manifests, generation=1, status=None):
    body = {"workload": {"manifests": list(manifests)}}
    meta = {"name": "w", "namespace": "fleet-member-m", "generation": generation}
    made = {"metadata": meta, "spec": body, **({"status": status} if status else {})}
    return msgspec.convert(made, Work)


def config_map(name="a", **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "app"},
        "data": data,
    }


def item(manifest):
    (found,) = read_manifests((manifest,))
    return found


def processed(
    name="a", outcome="Applied", *, drifts=(), diffs=(), live=True, available=Availability.AVAILABLE
):
    manifest = config_map(name)
    result = Result(
        outcome=outcome, live=manifest if live else None, drifts=tuple(drifts), diffs=tuple(diffs)
    )
    seen = available if result.is_applied else None
    return Processed(item=item(manifest), plural="configmaps", result=result, availability=seen)


# waves


@pytest.mark.parametrize(
    ("group", "plural", "wave"),
    [
        ("", "namespaces", 0),
        ("scheduling.k8s.io", "priorityclasses", 0),
        ("", "secrets", 1),
        ("apiextensions.k8s.io", "customresourcedefinitions", 1),
        ("rbac.authorization.k8s.io", "clusterroles", 2),
        ("rbac.authorization.k8s.io", "rolebindings", 3),
        ("apps", "deployments", 4),
        ("batch", "cronjobs", 4),
        ("networking.k8s.io", "ingresses", 4),
        ("apiregistration.k8s.io", "apiservices", 5),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", 5),
        ("example.com", "deployments", LAST_WAVE),
        ("example.com", "widgets", LAST_WAVE),
    ],
)
def test_g27_each_kind_has_its_wave(group, plural, wave):
    assert wave_of(group, plural) == wave


@pytest.mark.parametrize(
    ("group", "kind", "wave"),
    [
        ("", "Namespace", 0),
        ("networking.k8s.io", "NetworkPolicy", 1),
        ("networking.k8s.io", "IngressClass", 1),
        ("apps", "DaemonSet", 4),
        ("networking.k8s.io", "Ingress", 4),
        ("example.com", "Policy", LAST_WAVE),
    ],
)
def test_the_wave_of_a_kind_follows_from_its_name(group, kind, wave):
    assert wave_of_kind(group, kind) == wave


def test_what_no_manifest_speaks_of_any_more_is_left_over_whatever_its_version():
    items = read_manifests((config_map("a"),))
    records = [
        {
            "kind": "ConfigMap",
            "version": "v1beta1",
            "resource": "configmaps",
            "namespace": "app",
            "name": "a",
        },
        {"kind": "ConfigMap", "version": "v1", "resource": "configmaps", "namespace": "app", "name": "b"},
        {"kind": "Unknown", "version": "v1", "resource": "", "namespace": "app", "name": "c"},
    ]
    assert [one["name"] for one in find_left_overs(records, items)] == ["b"]


# reports


def test_g31_details_that_make_the_work_too_big_are_shortened_and_said_to_be():
    big = "x" * 4000
    drifts = [PatchDetail(path=f"/data/{n}", value_in_member=big, value_in_hub=big) for n in range(100)]
    one = [PatchDetail(path="/data/only", value_in_member=big)]
    many = [processed(str(n), drifts=drifts) for n in range(3)] + [processed("single", diffs=one)]
    status = report(work(), many, NOW, is_report_diff=False)
    said = {c.type: (c.status, c.reason) for c in status.conditions}
    assert said["StatusTrimmed"] == ("True", "Oversized")
    first = status.manifest_conditions[0].drift_details.observed_drifts
    assert [(d.path, d.value_in_member, d.value_in_hub) for d in first] == [
        ("/data/0 and 99 more path(s)", "(omitted)", "(omitted)")
    ]
    assert status.manifest_conditions[3].diff_details.observed_diffs[0].path == "/data/only"
    whole = msgspec.structs.replace(work(), status=status)
    assert len(msgspec.json.encode(whole)) < MAX_WORK_BYTES
    small = report(whole, [processed("0")], NOW, is_report_diff=False)
    assert "StatusTrimmed" not in {c.type for c in small.conditions}


outcomes = st.sampled_from(
    [
        "Applied",
        "AppliedWithFailedDriftDetection",
        "FoundDrifts",
        "FailedToTakeOver",
        "NotTakenOver",
        "ManifestApplyFailed",
        "NoDiffFound",
        "FoundDiff",
        "FoundDiffInDegradedMode",
        "FailedToReportDiff",
        "DecodingErred",
    ]
)
many_outcomes = st.lists(st.tuples(outcomes, st.sampled_from(list(Availability))), max_size=5)


@given(many_outcomes, st.booleans())
def test_a_look_that_finds_nothing_new_gives_the_very_status_it_was_given(found, is_report_diff):
    every = [processed(str(n), outcome, available=seen) for n, (outcome, seen) in enumerate(found)]
    first = report(work(), every, NOW, is_report_diff=is_report_diff)
    held = msgspec.structs.replace(work(), status=first)
    again = report(held, every, NOW + timedelta(hours=1), is_report_diff=is_report_diff)
    assert again == first


@given(many_outcomes, st.booleans())
def test_the_verdict_of_a_work_follows_from_its_manifests(found, is_report_diff):
    every = [processed(str(n), outcome, available=seen) for n, (outcome, seen) in enumerate(found)]
    status = report(work(), every, NOW, is_report_diff=is_report_diff)
    said = {c.type: c.status for c in status.conditions}
    if is_report_diff:
        assert set(said) == {"DiffReported"}
        reported = all("DiffReported" in _true(entry) for entry in status.manifest_conditions)
        assert (said["DiffReported"] == "True") == reported
        assert applied_status(every, is_report_diff=True).applied_resources == ()
    else:
        applied = all("Applied" in _true(entry) for entry in status.manifest_conditions)
        assert (said["Applied"] == "True") == applied
        assert ("Available" in said) == applied
        if applied:
            available = all("Available" in _true(entry) for entry in status.manifest_conditions)
            assert (said["Available"] == "True") == available


def _true(entry):
    return {c.type for c in entry.conditions if c.status == "True"}


# retries


def test_g29_only_what_another_try_may_help_is_tried_again_further_and_further_apart():
    failed = processed("a", "ManifestApplyFailed")
    delays = [retry_delay_s([processed("b"), failed], count) for count in range(40)]
    assert delays[:3] == [1.0, 1.5, 2.25]
    assert delays == sorted(delays)
    assert delays[-1] == MAX_RETRY_S
    for outcome in ("Applied", "FoundDrifts", "NotTakenOver", "Duplicated", "FoundGenerateName", "FoundDiff"):
        assert retry_delay_s([processed("a", outcome)], 0) == 0.0


def test_a_strategy_that_is_not_given_is_the_default_one():
    strategy = default_strategy(work())
    assert (strategy.type, strategy.when_to_apply, strategy.when_to_take_over) == (
        "ClientSideApply",
        "Always",
        "Always",
    )


# applying


OWNER = owner_reference("w", "uid-1")


def task(manifest, live=None, **strategy):
    body = {"applyStrategy": strategy} if strategy else {}
    made = msgspec.convert({"metadata": {"name": "w"}, "spec": body}, Work)
    return Task(
        identity=identity_of(manifest),
        manifest=manifest,
        live=live,
        strategy=default_strategy(made),
        owner=OWNER,
        is_work=lambda _name: True,
    )


def drive(rule, *answers):
    """Run the rule, answering in order; return (what it asked, what came out)."""
    asked = []
    replies = iter(answers)
    try:
        ask = next(rule)
        while True:
            asked.append(ask)
            ask = rule.send(next(replies))
    except StopIteration as end:
        return asked, end.value


def test_what_a_manifest_must_not_say_is_refused_before_anything_is_written():
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
    manifest = config_map()
    manifest["metadata"]["ownerReferences"] = [other]
    asked, result = drive(plan_apply(task(manifest)))
    assert asked == []
    assert result.outcome == "ManifestApplyFailed"
    assert "manifest is set to have owner references but co-ownership is disallowed" in result.error
    manifest["metadata"]["ownerReferences"] = [{**OWNER, "uid": "u"}]
    asked, result = drive(plan_apply(task(manifest, allowCoOwnership=True)))
    assert "an AppliedWork object is unexpectedly added as an owner in the manifest object" in result.error


def test_a_refusal_of_the_server_is_quoted():
    asked, result = drive(plan_apply(task(config_map())), Refused(403, "quota exceeded"))
    assert isinstance(asked[0], Create)
    assert result.error == (
        "failed to apply the manifest: failed to create manifest object: error returned by the API server: quota exceeded"
    )


def test_what_is_already_as_wanted_is_not_written_again():
    manifest = config_map(x="1")
    asked, _ = drive(plan_apply(task(manifest)), {})
    live = {**asked[0].body, "metadata": {**asked[0].body["metadata"], "uid": "u", "resourceVersion": "5"}}
    asked, result = drive(plan_apply(task(manifest, live)))
    assert asked == []
    assert result.outcome == "Applied"


def test_with_if_not_drifted_a_write_names_the_revision_it_was_decided_on():
    manifest = config_map(x="1")
    asked, _ = drive(plan_apply(task(manifest, whenToApply="IfNotDrifted")), {})
    live = {**asked[0].body, "metadata": {**asked[0].body["metadata"], "uid": "u", "resourceVersion": "5"}}
    asked, _ = drive(plan_apply(task(config_map(x="2"), live, whenToApply="IfNotDrifted")), live)
    assert isinstance(asked[0], Write)
    assert asked[0].body["metadata"]["resourceVersion"] == "5"


def test_an_object_with_big_annotations_is_not_remembered_in_one_more():
    manifest = config_map(x="1")
    assert last_applied_text(manifest)
    manifest["metadata"]["annotations"] = {"notes": "x" * 262_000}
    assert last_applied_text(manifest) == ""


names = st.text("abc", min_size=1, max_size=3)
objects = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.sampled_from(["ConfigMap", "Secret"]),
        "metadata": st.fixed_dictionaries(
            {"name": names, "namespace": names},
            optional={
                "labels": st.dictionaries(names, names, max_size=2),
                "annotations": st.dictionaries(names, names, max_size=2),
                "resourceVersion": names,
                "uid": names,
                "generation": st.integers(0, 3),
                "finalizers": st.lists(names, max_size=1),
            },
        ),
    },
    optional={"data": st.dictionaries(names, names, max_size=2), "status": st.just({"x": 1})},
)


@given(objects)
def test_what_servers_add_never_changes_the_hash_of_a_manifest(manifest):
    before = copy.deepcopy(manifest)
    stamped = copy.deepcopy(manifest)
    stamped["metadata"] |= {"uid": "other", "resourceVersion": "99", "managedFields": [{"manager": "x"}]}
    stamped["status"] = {"y": 2}
    assert spec_hash(manifest) == spec_hash(stamped)
    assert manifest == before


@given(objects)
def test_sanitising_twice_is_sanitising_once(manifest):
    once = sanitised(manifest)
    assert sanitised(once) == once
    assert "status" not in once
    assert gojson.encode(compared(once)) == gojson.encode(compared(manifest))
