"""Scores, skews, taints and eligibility by the contract's tables (numbers in brackets are the scenarios').

Rules: R-PICK-6, R-PICK-8.
"""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.cluster import MemberCluster, Taint
from echelon.api.placement import Toleration
from echelon.rules.affinity import Preferences, untolerated, weigh
from echelon.rules.eligible import why_ineligible, without_minutes
from echelon.rules.spread import effect_of
from tests.rules.pretend import NOW, a_cluster

NOT_CONNECTED = "cluster is not connected to the fleet: "


def cluster(body):
    body.setdefault("apiVersion", "cluster.kubernetes-fleet.io/v1beta1")
    body.setdefault("kind", "MemberCluster")
    return msgspec.convert(body, MemberCluster)


@pytest.mark.parametrize(
    ("order", "weight", "low", "high", "points"),
    [
        ("Descending", 100, 4, 8, 0),
        ("Descending", 100, 2, 4, 100),
        ("Descending", 7, 2, 7, 3),
        ("Descending", 8, 2, 7, 3),
        ("Ascending", 100, 4, 8, 100),
        ("Ascending", 100, 2, 4, 0),
        ("Ascending", 8, 2, 7, 5),
        ("Ascending", 7, 2, 7, 4),
        ("Ascending", 7, 4, 4, 0),
        ("Descending", -7, 2, 7, -3),
    ],
)
def test_a_share_of_the_weight_is_rounded_half_away_from_zero_100(order, weight, low, high, points):
    assert weigh(weight, order, 4.0, (low, high)) == points


def test_matched_terms_add_up_100():
    terms = {
        "placementType": "PickN",
        "numberOfClusters": 1,
        "affinity": {
            "clusterAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 50,
                        "preference": {"propertySorter": {"name": "a", "sortOrder": "Descending"}},
                    },
                    {"weight": 20, "preference": {"propertySorter": {"name": "b", "sortOrder": "Ascending"}}},
                ]
            }
        },
    }
    from echelon.api.placement import PlacementPolicy

    rows = {"lo": ("10", "0"), "x": ("12", "3"), "hi": ("20", "18")}
    fleet = [cluster(a_cluster(name, properties={"a": a, "b": b})) for name, (a, b) in rows.items()]
    assert Preferences(msgspec.convert(terms, PlacementPolicy), fleet).score(fleet[1]) == 27


@pytest.mark.parametrize(
    ("counts", "count", "max_skew", "violates", "change"),
    [
        ((2, 2, 2), 2, 1, False, 1),
        ((1, 2, 2), 1, 1, False, -1),
        ((1, 4, 4), 1, 1, True, -1),
        ((1, 1, 2), 1, 1, False, 0),
        ((1, 1, 3), 1, 1, True, 0),
        ((1, 2, 3), 2, 2, False, 0),
        ((1, 2, 3), 2, 1, True, 0),
        ((1, 2, 5), 5, 5, False, 1),
        ((1, 2, 5), 5, 2, True, 1),
    ],
)
def test_what_one_more_does_to_the_skew_101(counts, count, max_skew, violates, change):
    assert effect_of(counts, count, max_skew) == (violates, change)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=6), st.integers(1, 4), st.data())
def test_the_change_of_skew_is_what_adding_one_really_does(counts, max_skew, data):
    at = data.draw(st.integers(0, len(counts) - 1))
    effect = effect_of(sorted(counts), counts[at], max_skew)
    after = [*counts]
    after[at] += 1
    assert effect.skew_change == (max(after) - min(after)) - (max(counts) - min(counts))
    assert effect.violates == (max(after) - min(after) > max_skew)


@pytest.mark.parametrize(
    ("toleration", "is_tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "key": "k"}, True),
        ({"operator": "Exists", "key": "x"}, False),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "value": "x"}, False),
        ({"key": "k"}, False),
    ],
)
def test_which_taint_is_tolerated_49(toleration, is_tolerated):
    taint = Taint(key="k", value="v", effect="NoSchedule")
    held = msgspec.convert(toleration, Toleration)
    assert (untolerated([taint], [held]) is None) == is_tolerated


def aged(minutes, **more):
    return cluster(a_cluster("c", at=NOW - timedelta(minutes=minutes), **more))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (aged(0), None),
        (aged(4.9), None),
        (
            aged(7),
            "cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)",
        ),
        (aged(0, health="absent"), "cluster is not connected to the fleet: member agent not online yet"),
        (aged(0, health="unjoined"), "cluster is not connected to the fleet: member agent not joined yet"),
        (
            aged(0, health="sick"),
            f"{NOT_CONNECTED}unhealthy for a prolonged period of time (last transitioned 20.00 minutes ago)",
        ),
    ],
)
def test_who_can_receive_anything_102(found, why):
    assert why_ineligible(found, NOW) == why


def without(found, type_):
    body = msgspec.to_builtins(found)
    agent = body["status"]["agentStatus"][0]
    agent["conditions"] = [said for said in agent["conditions"] if said["type"] != type_]
    return cluster(body)


def test_missing_conditions_and_short_illness_102():
    assert why_ineligible(without(aged(0), "Joined"), NOW) == (
        "cluster is not connected to the fleet: member agent not joined yet"
    )
    assert why_ineligible(without(aged(0), "Healthy"), NOW) == (
        "cluster is not connected to the fleet: health condition from member agent is not available"
    )
    body = a_cluster("c", health="sick")
    body["status"]["agentStatus"][0]["conditions"][1]["lastTransitionTime"] = "2026-03-01T11:56:00Z"
    assert why_ineligible(cluster(body), NOW) is None
    body["metadata"]["deletionTimestamp"] = "2026-03-01T11:56:00Z"
    assert why_ineligible(cluster(body), NOW) == "cluster has left the fleet"


def test_the_passing_of_time_is_no_other_reason():
    one, other = why_ineligible(aged(7), NOW), why_ineligible(aged(8), NOW)
    assert one != other
    assert without_minutes(one) == without_minutes(other)
