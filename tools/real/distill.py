"""Distills the facts about built-in kinds from a real API server into one data file.

    python3 tools/real/distill.py [--dir DIR] [--out src/echelon/hub/data/builtin.json]

What: resources with their names, verbs and subresources (from discovery), schemas (from OpenAPI v3,
without any description), table columns (from Table answers), and the defaults that a person sees
though OpenAPI does not declare them (found by experiment, see defaults.py).

Why from the server and not from its source: the answers are the contract that clients see, and they
carry over to the next release by running this again. The output is deterministic: running it twice
on the same release writes the same bytes. README.md beside this file describes the format.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import defaults
from lab import Lab, LabError, default_dir
from rest import Rest, RestError

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "src" / "echelon" / "hub" / "data" / "builtin.json"
RECORDED = ROOT / "tests" / "conformance" / "recorded"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
REF = "#/components/schemas/"
DROPPED = ("description", "externalDocs", "example")
GVK = "x-kubernetes-group-version-kind"
INTEGER_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
# These hold whatever is put into them; OpenAPI cannot say that of a Go type and says less or nothing.
ANYTHING = (
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceStatus",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
)


def find_extensions(client: Rest) -> list[str]:
    """Returns the groups of custom resources, which a lab in use may have: they are not built in."""
    crds = client.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").ok().json()
    return sorted({crd["spec"]["group"] for crd in crds["items"]})


def load_documents(client: Rest) -> dict[str, Json]:
    """Returns the OpenAPI v3 document of each group version."""
    paths = client.get("/openapi/v3").ok().json()["paths"]
    extensions = tuple(f"apis/{group}/" for group in find_extensions(client))
    wanted = [
        path
        for path in paths
        if path.startswith(("api/v", "apis/")) and "/v" in path and not path.startswith(extensions)
    ]
    return {path: client.get(paths[path]["serverRelativeURL"]).ok().json() for path in wanted}


def distill_schema(schema: Json) -> Json:
    """Returns one schema with references by bare name and without prose and empty defaults.

    OpenAPI gives every field that Go does not keep by pointer its zero value as default. Nothing
    applies those, and objects would grow fields that no server answers, so they are left out.
    """
    out: Json = {}
    for key, value in schema.items():
        if key in DROPPED or (key == "default" and not value):
            continue
        if key == "properties":
            out[key] = {name: distill_schema(sub) for name, sub in sorted(value.items())}
        elif key == "items" or (key == "additionalProperties" and isinstance(value, dict)):
            out[key] = distill_schema(value)
        elif key == "allOf" and len(value) == 1:
            out.update(distill_schema(value[0]))
        elif key == "$ref":
            out[key] = value.removeprefix(REF)
        else:
            out[key] = value
    return out


def distill_definitions(documents: dict[str, Json]) -> Json:
    """Merges the schemas of all documents; the same name means the same schema in each of them."""
    merged: Json = {}
    for _, document in sorted(documents.items()):
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            distilled = distill_schema(schema)
            known = merged.setdefault(name, distilled)
            if known != distilled:
                _merge_kinds(name, known, distilled)
    for name in ANYTHING:
        merged[name]["x-kubernetes-preserve-unknown-fields"] = True
    for name in (INTEGER_OR_STRING, QUANTITY):
        merged[name] = {"x-kubernetes-int-or-string": True}
    merged[QUANTITY]["format"] = "quantity"
    return dict(sorted(merged.items()))


def _merge_kinds(name: str, known: Json, other: Json) -> None:
    """Joins the kind lists of a type that every group has, such as DeleteOptions."""
    for kind in other.get(GVK, []):
        if kind not in known[GVK]:
            known[GVK].append(kind)
    known[GVK].sort(key=lambda kind: (kind["group"], kind["version"], kind["kind"]))
    rest = ({k: v for k, v in schema.items() if k != GVK} for schema in (known, other))
    first, second = rest
    if first != second:
        raise ValueError(f"two different schemas are called {name}")


def find_definitions(definitions: Json) -> dict[tuple[str, str, str], str]:
    """Returns the name of the definition of each kind by group, version and kind."""
    found = {}
    for name, schema in definitions.items():
        kinds = schema.get(GVK, [])
        if len(kinds) == 1:
            kind = kinds[0]
            found[kind["group"], kind["version"], kind["kind"]] = name
    return found


def read_discovery(client: Rest) -> list[Json]:
    """Returns the aggregated discovery of the core group and of all others, in the server's order."""
    items: list[Json] = []
    extensions = find_extensions(client)
    for path in ("/api", "/apis"):
        found = client.get(path, DISCOVERY).ok().json()["items"]
        items += [item for item in found if item["metadata"].get("name") not in extensions]
    return items


def resource_path(group: str, version: str, plural: str) -> str:
    """Returns the path of a resource over all namespaces."""
    return f"/apis/{group}/{version}/{plural}" if group else f"/api/{version}/{plural}"


def distill_subresource(sub: Json, group: str, version: str) -> Json:
    """Returns one subresource; its kind's group is spelt out even where discovery leaves it empty."""
    kind = sub["responseKind"]
    out: Json = {
        "name": sub["subresource"],
        "kind": kind["kind"],
        "group": kind["group"] or (group if not kind["version"] else ""),
        "version": kind["version"] or version,
        "verbs": sub["verbs"],
    }
    if sub.get("acceptedTypes"):
        out["acceptedTypes"] = sub["acceptedTypes"]
    return out


def distill_columns(table: Json) -> list[Json]:
    """Returns a table's columns without their descriptions."""
    return [
        {key: column[key] for key in ("name", "type", "format", "priority")}
        for column in table["columnDefinitions"]
    ]


def distill_version(
    client: Rest, group: str, version: Json, resource: Json, definitions: dict[Any, str]
) -> Json:
    """Returns what differs from version to version of one resource."""
    name, kind = version["version"], resource["responseKind"]["kind"]
    out: Json = {
        "version": name,
        "definition": definitions.get((group, name, kind)),
        "verbs": resource["verbs"],
        "subresources": [distill_subresource(sub, group, name) for sub in resource.get("subresources", [])],
    }
    if "list" in resource["verbs"]:
        path = resource_path(group, name, resource["resource"])
        answer = client.get(f"{path}?limit=1", TABLE).ok()
        out["columns"] = distill_columns(answer.json())
        out["listKind"] = client.get(f"{path}?limit=1").ok().json()["kind"]
        if "warning" in answer.headers:
            out["warning"] = answer.headers["warning"].split('"')[1]
    return out


def distill_resources(client: Rest, definitions: Json) -> tuple[list[Json], list[Json]]:
    """Returns the groups with their versions, and the resources of all of them."""
    by_kind = find_definitions(definitions)
    groups: list[Json] = []
    resources: dict[tuple[str, str], Json] = {}
    for item in read_discovery(client):
        group = item["metadata"].get("name", "")
        versions = [version["version"] for version in item["versions"]]
        groups.append({"name": group, "versions": versions})
        for version in item["versions"]:
            hashes = _storage_hashes(client, group, version["version"])
            for resource in version.get("resources", []):
                known = resources.setdefault((group, resource["resource"]), _resource_head(group, resource))
                distilled = distill_version(client, group, version, resource, by_kind)
                if resource["resource"] in hashes:
                    distilled["storageVersionHash"] = hashes[resource["resource"]]
                known["versions"].append(distilled)
    return groups, list(resources.values())


def _storage_hashes(client: Rest, group: str, version: str) -> dict[str, str]:
    """Returns the storage version hashes, which only plain discovery has."""
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    found = client.get(path).ok().json()["resources"]
    return {r["name"]: r["storageVersionHash"] for r in found if "storageVersionHash" in r}


def _resource_head(group: str, resource: Json) -> Json:
    """Returns what all versions of a resource share."""
    return {
        "group": group,
        "plural": resource["resource"],
        "singular": resource["singularResource"],
        "kind": resource["responseKind"]["kind"],
        "shortNames": resource.get("shortNames", []),
        "categories": resource.get("categories", []),
        "namespaced": resource["scope"] == "Namespaced",
        "versions": [],
    }


def distill(client: Rest) -> Json:
    """Returns the whole document."""
    documents = load_documents(client)
    definitions = distill_definitions(documents)
    groups, resources = distill_resources(client, definitions)
    found = defaults.find_defaults(client, definitions)
    return {
        "kubernetes": client.get("/version").ok().json()["gitVersion"],
        "groups": groups,
        "resources": resources,
        "definitions": definitions,
        "defaults": found.rules,
        "conditionalDefaults": found.conditional,
    }


def write_document(path: Path, document: Json) -> None:
    """Writes the document with one line per resource, definition and rule: small, yet it diffs."""
    lines = ["{"]
    for number, (key, value) in enumerate(document.items()):
        comma = "," if number < len(document) - 1 else ""
        if isinstance(value, list):
            body = ",\n".join(_compact(item) for item in value)
            lines.append(f"{json.dumps(key)}: [\n{body}\n]{comma}")
        elif isinstance(value, dict):
            body = ",\n".join(f"{json.dumps(k)}: {_compact(v)}" for k, v in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{body}\n}}{comma}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}{comma}")
    lines.append("}\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


def _compact(value: Any) -> str:
    """Renders JSON without needless space, in a stable order."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Distill the built-in kinds of a lab's hub.")
    parser.add_argument("--dir", type=Path, default=default_dir(), help="the lab's directory")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(argv)
    try:
        document = distill(Lab(options.dir).client("hub"))
    except (LabError, RestError, defaults.DefaultsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    write_document(options.out, document)
    counts = ", ".join(f"{len(v)} {k}" for k, v in document.items() if not isinstance(v, str))
    print(f"{options.out}: {options.out.stat().st_size} bytes, {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
