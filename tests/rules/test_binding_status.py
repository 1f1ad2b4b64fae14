"""What a binding says: limits at their edges, and what members report that nobody should repeat unbounded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.binding import Binding, BindingStatus
from echelon.api.conditions import find_condition
from echelon.api.meta import MAX_CONDITION_MESSAGE
from echelon.api.placement import MAX_DETAILS
from echelon.api.work import Work
from echelon.rules.binding_status import judge, not_overridden, status_of
from echelon.rules.binding_status_details import (
    MAX_DETAIL_BYTES,
    diffed_of,
    drifted_of,
    envelope_of,
    failed_of,
)
from tests.rules.pretend import NOW, a_condition

AT = "2026-01-01T00:00:00Z"


def a_binding(generation: int = 1, **spec: Any) -> Binding:
    body = {
        "metadata": {"name": "b", "generation": generation},
        "spec": {
            "state": "Bound",
            "resourceSnapshotName": "web-0-snapshot",
            "schedulingPolicySnapshotName": "",
            "targetCluster": "m1",
            "clusterDecision": {"clusterName": "m1", "selected": True, "reason": ""},
            **spec,
        },
    }
    return msgspec.convert(body, Binding)


def entry(number: int, details: int = 1, value: str = "x", **conditions: str) -> dict[str, Any]:
    drifts = [{"path": f"/data/{i}", "valueInMember": value, "valueInHub": value} for i in range(details)]
    return {
        "identifier": {"ordinal": number, "version": "v1", "kind": "ConfigMap", "name": f"cm-{number:03}"},
        "conditions": [a_condition(type_, status) for type_, status in conditions.items()],
        "driftDetails": {
            "observationTime": AT,
            "firstDriftedObservedTime": AT,
            "observedInMemberClusterGeneration": 0,
            "observedDrifts": drifts,
        },
        "diffDetails": {"observationTime": AT, "firstDiffedObservedTime": AT, "observedDiffs": drifts},
    }


def a_work(
    name: str = "w", *entries: dict[str, Any], labels: dict[str, str] | None = None, **says: str
) -> Work:
    body = {
        "metadata": {"name": name, "generation": 1, "labels": labels or {}},
        "status": {
            "conditions": [a_condition(t, s, observedGeneration=1) for t, s in says.items()],
            "manifestConditions": list(entries),
        },
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Work)


@pytest.mark.parametrize("count", [MAX_DETAILS - 1, MAX_DETAILS, MAX_DETAILS + 1])
def test_at_most_a_hundred_objects_are_listed_the_first_by_name(count):
    entries = [entry(number, Applied="False") for number in reversed(range(count))]
    work = a_work("w", *entries, Applied="False")
    for rows in (failed_of([work]), drifted_of([work]), diffed_of([work])):
        assert len(rows) == min(count, MAX_DETAILS)
        names = [row.name for row in rows]
        expected = [f"cm-{number:03}" for number in range(count)]
        assert names == (expected[:MAX_DETAILS] if count > MAX_DETAILS else expected[::-1])


def test_details_are_shortened_when_they_are_too_big_together():
    big = a_work("w", *(entry(number, 3, "x" * 1000) for number in range(90)))
    rows = drifted_of([big])
    assert len(rows) == 90
    assert rows[0].observed_drifts[0].path == "/data/0 and 2 more path(s)"
    assert rows[0].observed_drifts[0].value_in_member == "(omitted)"
    assert len(msgspec.json.encode(rows)) < MAX_DETAIL_BYTES
    small = a_work("w", entry(0, 3, "x" * 1000))
    assert [d.path for d in drifted_of([small])[0].observed_drifts] == ["/data/0", "/data/1", "/data/2"]


def test_a_member_cannot_list_more_than_a_hundred_paths_of_an_object():
    assert len(diffed_of([a_work("w", entry(0, 500))])[0].observed_diffs) == MAX_DETAILS


def test_no_report_of_a_member_makes_a_binding_too_big_to_store():
    entries = [entry(number, 100, "x" * 100, Applied="False") for number in range(100)]
    for one in entries:
        one["conditions"][0]["message"] = "y" * 32_000
        one["identifier"] |= {"name": "z" * 10_000, "namespace": "z" * 10_000}
    work = a_work("w", *entries, Applied="False")
    binding = a_binding()
    status = status_of(binding, judge(binding, [work]), [work], NOW)
    assert len(status.failed_placements) == len(status.drifted_placements) == MAX_DETAILS
    assert len(msgspec.json.encode(status)) < 3 * MAX_DETAIL_BYTES


def test_a_message_never_exceeds_what_the_api_server_takes():
    status = status_of(a_binding(), not_overridden("x" * 100_000), (), NOW)
    assert len(status.conditions[0].message) == MAX_CONDITION_MESSAGE


@pytest.mark.parametrize("type_", ["", "Nonsense"])
def test_a_label_that_names_no_envelope_is_ignored(type_):
    assert envelope_of(a_work(labels={"kubernetes-fleet.io/envelope-work": type_})) is None


ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        t: st.sampled_from(["True", "False", "Unknown"]) for t in ("Applied", "Available", "DiffReported")
    },
)


@given(st.lists(ANSWERS, min_size=1, max_size=4), st.sampled_from(["ClientSideApply", "ReportDiff"]))
def test_a_binding_says_true_only_when_every_work_does(answers, strategy):
    works = [a_work(f"w{number}", **said) for number, said in enumerate(answers)]
    binding = a_binding(applyStrategy={"type": strategy})
    told = {one.type: one.status for one in judge(binding, works).told}
    asked = ("DiffReported",) if strategy == "ReportDiff" else ("Applied", "Available")
    assert not {"Applied", "Available", "DiffReported"} - set(asked) & set(told)
    for type_ in asked:
        if told.get(type_) == "True":
            assert all(said.get(type_) == "True" for said in answers)
        if all(said.get(type_) == "True" for said in answers) and (
            type_ != "Available" or told["Applied"] == "True"
        ):
            assert told[type_] == "True"
    assert ("Available" in told) == (told.get("Applied") == "True")


@given(st.lists(ANSWERS, min_size=1, max_size=3))
def test_saying_the_same_again_changes_nothing(answers):
    works = [a_work(f"w{number}", **said) for number, said in enumerate(answers)]
    binding = a_binding(generation=3)
    report = judge(binding, works)
    once = status_of(binding, report, works, NOW)
    again = status_of(msgspec.structs.replace(binding, status=once), report, works, NOW.replace(year=2030))
    assert again == once


def test_what_others_say_about_a_binding_stays():
    stamp = a_condition("RolloutStarted", observedGeneration=1)
    other = a_condition("SomebodyElse", observedGeneration=1)
    status = msgspec.json.decode(msgspec.json.encode({"conditions": [stamp, other]}), type=BindingStatus)
    binding = msgspec.structs.replace(a_binding(), status=status)
    new = status_of(binding, not_overridden("x"), (), NOW)
    assert new.conditions[:2] == status.conditions
    assert find_condition(new.conditions, "Overridden").status == "False"
