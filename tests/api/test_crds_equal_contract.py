"""The generated definitions are those of the contract, but for the differences listed here."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.api.crds import crds

CONTRACT = Path(__file__).parents[3] / "shared" / "contract" / "crds"

pytestmark = [
    pytest.mark.contract,
    pytest.mark.skipif(
        not CONTRACT.is_dir(),
        reason="the contract's schemas are not beside this checkout (../shared/contract)",
    ),
]

IGNORED = ("description",)  # ours are our own words


@functools.cache
def contract() -> dict[str, Any]:
    found = [
        yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader) for path in sorted(CONTRACT.glob("*.yaml"))
    ]
    return {crd["metadata"]["name"]: crd for crd in found}


def differences(
    theirs: Any, ours: Any, path: tuple[str, ...] = (), *, field_names: bool = False
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, theirs, ours) of everything that differs; a missing side is None.

    Inside `properties` the keys are field names, so that a field called `description` is not taken for words.
    """
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for key in sorted({*theirs, *ours}):
            if key in IGNORED and not field_names:
                continue
            inner = key == "properties" and not field_names
            yield from differences(theirs.get(key), ours.get(key), (*path, key), field_names=inner)
    elif path[-1] == "required" and theirs and ours:
        if sorted(theirs) != sorted(ours):
            yield ".".join(path), theirs, ours
    elif theirs != ours:
        yield ".".join(path), theirs, ours


def versions(crd: dict[str, Any]) -> dict[str, Any]:
    return {version["name"]: version for version in crd["spec"]["versions"]}


OURS = {crd["metadata"]["name"]: crd for crd in crds()}
NAMES = sorted(OURS)


def test_the_same_kinds_are_defined():
    assert sorted(contract()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_names_and_scope_are_the_same(name: str):
    theirs, ours = contract()[name]["spec"], OURS[name]["spec"]

    assert ours["group"] == theirs["group"]
    assert ours["scope"] == theirs["scope"]
    assert ours["names"] == theirs["names"]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_versions_are_served_but_the_old_alpha(name: str):
    theirs, ours = versions(contract()[name]), versions(OURS[name])
    wanted = set(theirs) - {"v1alpha1"} or {"v1alpha1"}

    assert set(ours) == wanted
    for version, definition in ours.items():
        assert definition["served"] == theirs[version]["served"]
        assert definition["storage"] == theirs[version]["storage"]


# path -> why the difference is intended
INTENDED = {
    (
        "clusterresourceplacementstatuses.placement.kubernetes-fleet.io",
        "subresources",
    ): "{} and absent are the same",
    (
        "clusterapprovalrequests.placement.kubernetes-fleet.io",
        "schema.openAPIV3Schema.properties.status.properties.approvedBy",
    ): "who approved, as the API server noted it; optional",
    (
        "approvalrequests.placement.kubernetes-fleet.io",
        "schema.openAPIV3Schema.properties.status.properties.approvedBy",
    ): "who approved, as the API server noted it; optional",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_version_is_the_same_in_everything_but_words(name: str):
    storage = next(v for v in contract()[name]["spec"]["versions"] if v["storage"])

    found = differences(storage, versions(OURS[name])[storage["name"]])

    assert [difference for difference in found if (name, difference[0]) not in INTENDED] == []


def test_no_intended_difference_is_out_of_date():
    found = {
        (name, path)
        for name in NAMES
        for version in contract()[name]["spec"]["versions"]
        if version["storage"]
        for path, _, _ in differences(version, versions(OURS[name])[version["name"]])
    }

    assert found == set(INTENDED)


# In v1 the contract lacks fields that v1beta1 has, so that a write through v1 silently drops them. Ours has the
# same schema in both; what differs must be such a field, or the envelope type that v1 no longer lists.
V1_LACKS = (
    ".spec.properties.deleteOptions",
    ".spec.properties.reportBackStrategy",
    ".status.properties.namespaces",
    ".strategy.properties.deleteStrategy",
    ".strategy.properties.reportBackStrategy",
    ".manifestConditions.items.properties.backReportedStatus",
)
V1_ENVELOPE_TYPE = (
    ".envelope.properties.type.enum",
    ".envelope.properties.type.default",
    ".envelope.required",
)


@pytest.mark.parametrize("name", [name for name in NAMES if "v1" in versions(OURS[name])])
def test_v1_has_the_schema_of_v1beta1_so_that_no_write_loses_fields(name: str):
    ours = versions(OURS[name])
    theirs = versions(contract()[name])["v1"]

    assert ours["v1"]["schema"] == ours["v1beta1"]["schema"]
    for path, their_value, _ in differences(theirs, ours["v1"]):
        is_missing_field = path.endswith(V1_LACKS) and their_value is None
        assert is_missing_field or path.endswith(V1_ENVELOPE_TYPE) or (name, path) in INTENDED, path
