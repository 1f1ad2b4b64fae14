"""The texts by which an override that makes no sense is refused (contract D4)."""

import msgspec
import pytest

from echelon.api.override import Override
from echelon.rules.override_check import check_override, check_path
from tests.rules.test_override import EVERYWHERE, ON_CM, ON_NS, rule


def check(selectors, *rules):
    key = (
        "resourceSelectors"
        if "Namespace" not in {s["kind"] for s in selectors}
        else "clusterResourceSelectors"
    )
    body = {"metadata": {"name": "o"}, "spec": {key: selectors, "policy": {"overrideRules": list(rules)}}}
    return check_override(msgspec.convert(body, Override, strict=False))


FINE = rule(("add", "/spec/x", "v"))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "path cannot be empty"),
        ("spec/x", "path must start with /"),
        ("/kind", "cannot override typeMeta fields"),
        ("/apiVersion", "cannot override typeMeta fields"),
        ("/metadata", "cannot override field metadata"),
        ("/metadata/name", "cannot override metadata fields except annotations and labels"),
        ("/metadata/finalizers/0", "cannot override metadata fields except annotations and labels"),
        ("/status", "cannot override status fields"),
        ("/status/x", "cannot override status fields"),
        ("/spec//x", "path cannot contain empty string"),
        ("/spec/ /x", "path cannot contain empty string"),
        ("/spec/", "path cannot contain empty string"),
        ("/", "path cannot contain empty string"),
        ("/metadata/labels/x", ""),
        ("/metadata/annotations", ""),
        ("/statusx", ""),
        ("/data/status", ""),
    ],
)
def test_paths(path, why):
    assert check_path(path) == why


@pytest.mark.parametrize(
    ("selectors", "rules", "said"),
    [
        ([ON_NS], [FINE], ""),
        ([ON_NS, ON_NS], [FINE], "already exists, and must be unique"),
        (
            [ON_CM, ON_CM],
            [FINE],
            "resource selector {Group: Version:v1 Kind:ConfigMap Name:cm} already exists",
        ),
        ([{**ON_NS, "name": ""}], [FINE], "resource name is required for resource selection"),
        (
            [{**ON_NS, "labelSelector": {"matchLabels": {"a": "b"}}}],
            [FINE],
            "label selector is not supported for resource selection",
        ),
        (
            [ON_NS],
            [{**FINE, "overrideType": "Delete"}],
            "invalid JSONPatchOverrides: JSONPatchOverrides cannot be set when the override type is Delete",
        ),
        ([ON_NS], [rule()], "invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty"),
        ([ON_NS], [rule(delete=True)], ""),
        (
            [ON_NS],
            [rule(("remove", "/spec/x", "v"))],
            'invalid JSONPatchOverride {remove /spec/x "v"}: remove operation cannot have value',
        ),
        ([ON_NS], [rule(("remove", "/spec/x", None))], ""),
        (
            [ON_NS],
            [rule(("add", "/kind", 1)), rule(("add", "/status", 2))],
            (
                "[invalid JSONPatchOverride {add /kind 1}: cannot override typeMeta fields, "
                "invalid JSONPatchOverride {add /status 2}: cannot override status fields]"
            ),
        ),
        (
            [ON_NS],
            [{**FINE, "clusterSelector": {"clusterSelectorTerms": [{}]}}],
            "invalid clusterSelector {LabelSelector:nil}: labelSelector is required",
        ),
        (
            [ON_NS],
            [
                {
                    **FINE,
                    "clusterSelector": {
                        "clusterSelectorTerms": [{"propertySelector": {"matchExpressions": []}}]
                    },
                }
            ],
            "only labelSelector is supported",
        ),
        (
            [ON_NS],
            [
                {
                    **FINE,
                    "clusterSelector": {
                        "clusterSelectorTerms": [
                            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
                        ]
                    },
                }
            ],
            "the labelSelector in cluster selector",
        ),
        ([ON_NS], [{**FINE, "clusterSelector": EVERYWHERE}], ""),
    ],
)
def test_overrides(selectors, rules, said):
    found = check(selectors, *rules)
    assert said in found if said else found == ""
