"""Which override snapshots reach which clusters, and what they do to a manifest (contract C and its unit cases)."""

from typing import Any

import msgspec
import pytest

from echelon.api.cluster import MemberCluster
from echelon.api.override import OverrideSnapshot
from echelon.api.scope import Key
from echelon.rules.override import (
    ClusterOverrides,
    InvalidOverride,
    find_overrides,
    select_for_cluster,
    targets_of,
)
from echelon.rules.override_apply import OverrideFailure, Overrider, replace_variables
from tests.deliveries import config_map, envelope, override

EVERYWHERE: dict[str, Any] = {"clusterSelectorTerms": []}
NS = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}}
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "clusterrole-name", "labels": {"a": "1"}},
}
ON_NS = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
ON_ROLE = {
    "group": "rbac.authorization.k8s.io",
    "version": "v1",
    "kind": "ClusterRole",
    "name": "clusterrole-name",
}
ON_CM = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "cm"}


PLACED = (NS, config_map())
CRP = Key(None, "crp")


def where(**labels):
    return {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": labels}}]}


def rule(*patches, clusters=EVERYWHERE, delete=False):
    made: dict[str, Any] = {"clusterSelector": clusters, "overrideType": "Delete" if delete else "JSONPatch"}
    if clusters is None:
        del made["clusterSelector"]
    if patches:
        made["jsonPatchOverrides"] = [
            dict(zip(("op", "path", "value"), patch, strict=False)) for patch in patches
        ]
    return made


def spec(selector, *rules, placement=None):
    key = "resourceSelectors" if selector is ON_CM else "clusterResourceSelectors"
    made: dict[str, Any] = {key: [selector], "policy": {"overrideRules": list(rules)}}
    return made | ({"placement": placement} if placement else {})


def snap(name, *args, index=0, space=None, latest=True, **more) -> OverrideSnapshot:
    body = override(name, index, spec(*args, **more), space=space, latest=latest)
    return msgspec.convert(body, OverrideSnapshot, strict=False)


def cluster(name="east-1", **labels) -> MemberCluster:
    body = {"metadata": {"name": name, "labels": labels}, "spec": {"identity": {"kind": "User", "name": "x"}}}
    return msgspec.convert(body, MemberCluster)


def names(found: ClusterOverrides):
    return found.cluster, tuple(f"{ref.namespace}/{ref.name}" for ref in found.namespaced)


def select(cluster_snapshots, namespaced=(), resources=PLACED, placement=CRP, **labels):
    found = find_overrides(cluster_snapshots, namespaced, resources, placement)
    return names(select_for_cluster(found, cluster(**labels)))


ADD = ("add", "/metadata/annotations", {"k": "v"})


# --- choosing -----------------------------------------------------------------------------------------------------
def test_an_override_of_a_namespace_reaches_a_placement_with_anything_in_it():
    assert select([snap("cro", ON_NS, rule(ADD))]) == (("cro-0",), ())
    assert select([snap("cro", ON_NS, rule(ADD))], resources=[config_map()]) == (("cro-0",), ())
    assert select([snap("cro", ON_NS, rule(ADD))], resources=[config_map(space="other")]) == ((), ())


def test_only_the_latest_snapshot_counts_and_of_two_marked_the_newer():
    old, new = snap("cro", ON_NS, rule(ADD), latest=False), snap("cro", ON_NS, rule(ADD), index=1)
    assert select([old, new]) == (("cro-1",), ())
    both = [snap("cro", ON_NS, rule(ADD), index=10), snap("cro", ON_NS, rule(ADD), index=9)]
    assert select(both) == (("cro-10",), ())


@pytest.mark.parametrize(
    ("placement", "target", "reaches"),
    [
        (None, Key(None, "crp"), True),
        ({"name": "crp"}, Key(None, "crp"), True),
        ({"name": "crp", "scope": "Cluster"}, Key(None, "other"), False),
        ({"name": "crp"}, Key("app", "crp"), False),
        (None, Key("app", "rp"), True),
    ],
)
def test_a_cluster_scoped_override_is_for_every_placement_or_for_the_one_it_names(placement, target, reaches):
    found = select([snap("cro", ON_NS, rule(ADD), placement=placement)], placement=target)
    assert found == ((("cro-0",) if reaches else ()), ())


@pytest.mark.parametrize(
    ("placement", "target", "reaches"),
    [
        (None, Key(None, "crp"), True),
        ({"name": "crp"}, Key(None, "crp"), True),
        ({"name": "rp", "scope": "Namespaced"}, Key("app", "rp"), True),
        ({"name": "rp", "scope": "Namespaced"}, Key("other", "rp"), False),
        ({"name": "crp", "scope": "Namespaced"}, Key(None, "crp"), False),
        ({"name": "rp"}, Key("app", "rp"), False),
    ],
)
def test_c20_a_namespaced_override_names_a_placement_of_either_scope(placement, target, reaches):
    found = select((), [snap("ro", ON_CM, rule(ADD), space="app", placement=placement)], placement=target)
    assert found == ((), (("app/ro-0",) if reaches else ()))


def test_c20_an_override_of_an_object_that_is_not_placed_is_left_out():
    assert select((), [snap("ro", ON_CM, rule(ADD), space="app")], resources=[NS]) == ((), ())
    assert select((), [snap("ro", ON_CM, rule(ADD), space="other")]) == ((), ())


def test_versions_must_match_exactly():
    beta = {**ON_ROLE, "version": "v1beta1"}
    assert select([snap("cro", beta, rule(ADD))], resources=[ROLE]) == ((), ())
    assert select([snap("cro", ON_ROLE, rule(ADD))], resources=[ROLE]) == (("cro-0",), ())


def test_what_is_inside_envelopes_can_be_overridden_and_envelopes_cannot():
    wide = envelope("wide", ROLE, space=None)
    narrow = envelope("narrow", config_map())
    assert select([snap("cro", ON_ROLE, rule(ADD))], resources=[wide]) == (("cro-0",), ())
    assert select([snap("cro", ON_NS, rule(ADD))], resources=[narrow]) == (("cro-0",), ())
    assert select((), [snap("ro", ON_CM, rule(ADD), space="app")], resources=[narrow]) == ((), ("app/ro-0",))
    itself = {**ON_ROLE, "group": "placement.kubernetes-fleet.io", "version": "v1beta1"}
    itself |= {"kind": "ClusterResourceEnvelope", "name": "wide"}
    assert select([snap("cro", itself, rule(ADD))], resources=[wide]) == ((), ())


def test_bad_entries_of_envelopes_are_skipped_here():
    bad = envelope("narrow", ROLE, config_map(space="elsewhere"), {"nonsense": 1})
    assert {target.kind for target in targets_of([bad])} == {"Namespace"}


def test_rules_choose_clusters_by_label_and_one_rule_is_enough():
    made = snap("cro", ON_NS, rule(ADD, clusters=where(region="west")), rule(ADD, clusters=where(env="prod")))
    assert select([made], region="east", env="prod") == (("cro-0",), ())
    assert select([made], region="east") == ((), ())
    assert select([snap("cro", ON_NS, rule(ADD, clusters=None))]) == ((), ())
    nothing = {"clusterSelectorTerms": [{}]}
    assert select([snap("cro", ON_NS, rule(ADD, clusters=nothing))]) == ((), ())


def test_order_is_plain_text_order_of_names_and_of_namespaces_first():
    cros = [snap(name, ON_NS, rule(ADD), index=i) for name, i in (("b", 0), ("a", 9), ("a-1", 0))]
    ros = [
        snap(name, ON_CM, rule(ADD), space=space) for name, space in (("z", "app"), ("a", "b"), ("y", "app"))
    ]
    found = select(cros, ros, resources=[NS, config_map(), config_map(space="b")])
    assert found == (("a-1-0", "a-9", "b-0"), ("app/y-0", "app/z-0", "b/a-0"))


def test_a_selector_nobody_can_read_is_an_error_that_shows_it():
    broken = {
        "clusterSelectorTerms": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]
    }
    with pytest.raises(InvalidOverride) as error:
        select([snap("cro", ON_NS, rule(ADD, clusters=broken))])
    assert str(error.value) == (
        "invalid cluster label selector &LabelSelector{MatchLabels:map[string]string{},MatchExpressions:"
        "[]LabelSelectorRequirement{LabelSelectorRequirement{Key:a,Operator:Like,Values:[],},},}: "
        '"Like" is not a valid label selector operator'
    )


# --- applying ---------------------------------------------------------------------------------------------------------
def apply(manifest, cros=(), ros=(), on=None):
    return Overrider(on or cluster(region="east"), cros, ros).apply(manifest)


def test_c12_the_namespaced_override_has_the_last_word_on_its_object_only():
    cro = snap("cro", ON_NS, rule(("add", "/metadata/annotations", {"by": "cro"})))
    ro = snap("ro", ON_CM, rule(("add", "/metadata/annotations", {"by": "ro"})), space="app")
    assert apply(config_map(), [cro], [ro])["metadata"]["annotations"] == {"by": "ro"}
    assert apply(NS, [cro], [ro])["metadata"]["annotations"] == {"by": "cro"}
    assert apply(config_map("other"), [cro], [ro])["metadata"]["annotations"] == {"by": "cro"}
    assert apply(config_map(space="elsewhere"), [cro], [ro]) == config_map(space="elsewhere")


def test_manifests_are_never_changed_in_place():
    before = msgspec.json.encode(ROLE)
    apply(ROLE, [snap("cro", ON_ROLE, rule(("remove", "/metadata/labels/a")))])
    assert msgspec.json.encode(ROLE) == before


def test_later_rules_win():
    made = snap(
        "cro",
        ON_ROLE,
        rule(("add", "/metadata/labels/new", "first")),
        rule(("replace", "/metadata/labels/new", "second")),
    )
    assert apply(ROLE, [made])["metadata"]["labels"] == {"a": "1", "new": "second"}


@pytest.mark.parametrize(
    ("patches", "cause"),
    [
        (
            [("add", "/metadata/annotations/k", "v")],
            'add operation does not apply: doc is missing path: "/metadata/annotations/k": missing value',
        ),
        (
            [("remove", "/metadata/labels/a"), ("remove", "/metadata/labels/a")],
            "error in remove for path: '/metadata/labels/a': unable to remove nonexistent key: a: missing value",
        ),
        (
            [("remove", "/metadata/annotations/k")],
            'remove operation does not apply: doc is missing path: "/metadata/annotations/k": missing value',
        ),
        (
            [("replace", "/metadata/annotations/k", "v")],
            "replace operation does not apply: doc is missing path: /metadata/annotations/k: missing value",
        ),
        (
            [("replace", "/metadata/labels/b", "v")],
            "replace operation does not apply: doc is missing key: /metadata/labels/b: missing value",
        ),
    ],
)
def test_a_patch_that_does_not_apply_names_the_snapshot_the_object_and_the_cause(patches, cause):
    with pytest.raises(OverrideFailure) as error:
        apply(ROLE, [snap("cro", ON_ROLE, rule(*patches))])
    assert str(error.value) == (
        f'ClusterResourceOverrideSnapshot "cro-0" failed to apply on ClusterRole "clusterrole-name": {cause}'
    )


def test_a_namespaced_failure_names_the_namespace():
    with pytest.raises(OverrideFailure) as error:
        apply(config_map(), ros=[snap("ro", ON_CM, rule(("add", "/a/b", 1)), space="app")])
    assert str(error.value).startswith(
        'ResourceOverrideSnapshot "ro-0" failed to apply on ConfigMap "cm" in namespace "app": add operation'
    )


def test_deleting_leaves_the_object_out_whatever_comes_later():
    delete = rule(clusters=where(region="east"), delete=True)
    ro = snap("ro", ON_CM, rule(("add", "/data/x", "1")), space="app")
    assert apply(config_map(), [snap("cro", ON_NS, delete)], [ro]) is None
    assert apply(config_map(), [snap("cro", ON_NS, rule(("add", "/data/x", "1")), delete)]) is None
    west = cluster(region="west")
    assert apply(config_map(), [snap("cro", ON_NS, delete)], on=west) == config_map()


def test_after_a_delete_variables_of_later_patches_are_still_checked():
    ro = snap("ro", ON_CM, rule(("add", "/data/x", "${MEMBER-CLUSTER-LABEL-KEY-none}")), space="app")
    with pytest.raises(OverrideFailure, match="label key none not found on cluster east-1"):
        apply(config_map(), [snap("cro", ON_NS, rule(delete=True))], [ro])


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("${MEMBER-CLUSTER-NAME}", "east-1"),
        ("new-${MEMBER-CLUSTER-NAME}-${MEMBER-CLUSTER-NAME}", "new-east-1-east-1"),
        ("${MEMBER-CLUSTER-LABEL-KEY-region}", "east"),
        (
            {"${MEMBER-CLUSTER-LABEL-KEY-region}": ["${MEMBER-CLUSTER-LABEL-KEY-a.b/c}", 1, None]},
            {"east": ["d", 1, None]},
        ),
        ("$MEMBER-CLUSTER-LABEL-KEY-region", "$MEMBER-CLUSTER-LABEL-KEY-region"),
        ("${MEMBER-CLUSTER}", "${MEMBER-CLUSTER}"),
        ("<&>", "<&>"),
    ],
)
def test_variables_are_replaced_in_the_value_as_text(value, wanted):
    assert replace_variables(value, cluster(region="east", **{"a.b/c": "d"})) == wanted


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("${MEMBER-CLUSTER-LABEL-KEY-REGION}", "label key REGION not found on cluster east-1"),
        ("${MEMBER-CLUSTER-LABEL-KEY-}", "label key  not found on cluster east-1"),
        (
            "${MEMBER-CLUSTER-LABEL-KEY-region",
            'input "${MEMBER-CLUSTER-LABEL-KEY-region" is missing the closing bracket `}`',
        ),
    ],
)
def test_a_variable_that_cannot_be_replaced_is_an_error(value, problem):
    with pytest.raises(InvalidOverride) as error:
        replace_variables(value, cluster(region="east"))
    assert str(error.value) == problem
