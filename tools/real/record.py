"""Records answers of the real API server that tests of the embedded hub are checked against.

    python3 tools/real/record.py

Starts a lab of its own, so that nothing but what this script creates is in it, writes
``discovery.json`` and ``tables.json`` to tests/conformance/recorded/, and ends the lab.

tables.json holds, per resource and version, the column definitions and some rows: the cells as the
server printed them, the object that it printed, and the time at which it did so, because ages are
relative to it. A printer that gets the same object and time must print the same cells.
"""

from __future__ import annotations

import copy
import json
import re
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import build
from defaults import collection_path
from distill import DISCOVERY, RECORDED, TABLE, Json, read_discovery, resource_path
from lab import Lab, LabError
from rest import Rest, RestError
from samples import samples

SPACE, QUOTA_SPACE = "tables", "tables-limited"
MAX_ROWS = 8
SETTLE_S = 20.0
MAX_OBJECT_BYTES = 6000
# These change how the server treats others, so they come when all others are settled.
DISTURBING = (
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "MutatingAdmissionPolicy",
    "APIService",
    "ServiceCIDR",
)
LIMITING = ("ResourceQuota", "LimitRange")
PLAIN_DISCOVERY = ("/api", "/apis", "/apis/apps", "/api/v1", "/apis/apps/v1", "/apis/autoscaling")


def write_json(path: Path, value: Any) -> None:
    """Writes a compact document with one line per top-level entry."""
    lines = [
        f"{json.dumps(key)}: {json.dumps(sub, separators=(',', ':'), sort_keys=True)}"
        for key, sub in value.items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{path}: {path.stat().st_size} bytes")


def record_discovery(client: Rest) -> Json:
    """Returns the discovery documents and /version of an API server without extensions."""
    out: Json = {"/version": client.get("/version").ok().json()}
    for path in ("/api", "/apis"):
        out[f"{path} aggregated"] = client.get(path, DISCOVERY).ok().json()
    for path in PLAIN_DISCOVERY:
        out[path] = client.get(path).ok().json()
    paths = client.get("/openapi/v3").ok().json()["paths"]
    out["/openapi/v3"] = sorted(paths)
    return out


def unique_samples() -> list[Json]:
    """Returns the samples under names of their own, in namespaces that suit them."""
    out = []
    for number, sample in enumerate(samples()):
        kind = sample["kind"]
        if kind in {"CustomResourceDefinition", "APIService"}:
            if any(other["metadata"]["name"] == sample["metadata"]["name"] for other in out):
                continue
            out.append(copy.deepcopy(sample))
            continue
        named = copy.deepcopy(sample)
        named["metadata"]["name"] = f"{kind.lower()}-{number}"
        if "namespace" in named["metadata"]:
            named["metadata"]["namespace"] = QUOTA_SPACE if kind in LIMITING else SPACE
        out.append(named)
    return out


def _workload(kind: str, name: str, images: list[str], **spec: Any) -> Json:
    """Returns a workload of the given images."""
    containers = [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]
    labels = {"app": name}
    pod: Json = {"containers": containers}
    if kind == "Job":
        pod["restartPolicy"] = "Never"
    template = {"metadata": {"labels": labels}, "spec": {**pod, **spec.pop("pod", {})}}
    body: Json = {"template": template, **spec}
    if kind != "Job":
        body["selector"] = {"matchLabels": labels}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": SPACE},
        "spec": body,
    }


def telling_objects() -> list[Json]:
    """Returns objects whose rows show what minimal ones do not: failures, lists, statuses."""
    ok, broken, crash = "example.com/app:v1", "example.com/broken:v1", "example.com/crash:v1"
    held = {"finalizers": ["example.com/held"]}
    gated = {"readinessGates": [{"conditionType": "example.com/gate"}]}
    rule = {
        "http": {
            "paths": [
                {
                    "path": "/",
                    "pathType": "Prefix",
                    "backend": {"service": {"name": "s", "port": {"number": 80}}},
                }
            ]
        }
    }
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 443, "protocol": "UDP"}]
    cron = _workload("Job", "unused", [ok])["spec"]
    pod_meta = {"namespace": SPACE, "labels": {"app": "x"}}
    return [
        _workload("Deployment", "two-containers", [ok, ok], replicas=2),
        _workload("Deployment", "broken-image", [broken]),
        _workload("Deployment", "crashing", [crash], replicas=2),
        _workload("StatefulSet", "crashing", [ok, crash], replicas=2),
        _workload("DaemonSet", "broken-image", [broken]),
        _workload("DaemonSet", "selected", [ok], pod={"nodeSelector": {"a": "b"}}),
        _workload("Job", "suspended", [ok], suspend=True),
        _workload("Job", "broken-image", [broken], backoffLimit=0, activeDeadlineSeconds=3),
        _workload("Deployment", "gated", [ok], pod=gated),
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "off", "namespace": SPACE},
            "spec": {
                "schedule": "0 0 * * *",
                "timeZone": "Etc/UTC",
                "suspend": True,
                "jobTemplate": {"spec": cron},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**pod_meta, "name": "held", **held},
            "spec": {"containers": [{"name": "c", "image": ok}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**pod_meta, "name": "with-init"},
            "spec": {
                "containers": [{"name": "c", "image": ok}],
                "initContainers": [
                    {"name": "i", "image": ok},
                    {"name": "s", "image": ok, "restartPolicy": "Always"},
                ],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**pod_meta, "name": "nowhere"},
            "spec": {"containers": [{"name": "c", "image": ok}], "nodeSelector": {"no": "where"}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**pod_meta, "name": "not-gated-yet"},
            "spec": {"containers": [{"name": "c", "image": ok}], "schedulingGates": [{"name": "x.y/z"}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "control",
                "labels": {"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/etcd": ""},
            },
            "spec": {"unschedulable": True},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "balanced", "namespace": SPACE},
            "spec": {"type": "LoadBalancer", "ports": ports, "selector": {"a": "b", "c": "d"}},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "external", "namespace": SPACE},
            "spec": {"ports": ports, "externalIPs": ["1.2.3.4", "1.2.3.5"]},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": "full", "namespace": SPACE},
            "spec": {
                "ingressClassName": "x",
                "tls": [{"hosts": ["a.example.com"]}],
                "rules": [{"host": f"{h}.example.com", **rule} for h in "abcd"],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "ending", **held},
            "spec": {"finalizers": ["example.com/held"]},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "example.com/x",
            "allowVolumeExpansion": True,
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "many-modes", "namespace": SPACE},
            "spec": {
                "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "storageClassName": "none",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "selecting", "namespace": SPACE},
            "spec": {
                "podSelector": {
                    "matchLabels": {"a": "b"},
                    "matchExpressions": [
                        {"key": "k", "operator": "In", "values": ["x", "y"]},
                        {"key": "l", "operator": "Exists"},
                        {"key": "m", "operator": "DoesNotExist"},
                    ],
                }
            },
        },
    ]


def disturb(client: Rest) -> None:
    """Brings objects into states that no request to create them can: ending, balanced."""
    base = f"/api/v1/namespaces/{SPACE}"
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "5.6.7.8"}, {"hostname": "lb.x"}]}}}
    merge = {"Content-Type": "application/merge-patch+json"}
    client.send("PATCH", f"{base}/services/balanced/status", status, merge).ok()
    path = f"/apis/networking.k8s.io/v1/namespaces/{SPACE}/ingresses/full/status"
    client.send("PATCH", path, status, merge).ok()
    client.send("DELETE", f"{base}/pods/held").ok()
    client.send("DELETE", "/api/v1/namespaces/ending").ok()


def create_all(client: Rest, wanted: list[Json]) -> None:
    """Creates objects; a few samples are refused outside a dry run, which is no harm."""
    plurals: Json = {}
    for sample in wanted:
        answer = client.send("POST", collection_path(client, sample, plurals), sample)
        if answer.code != 201:
            print(f"not recorded: {sample['kind']}: {answer.json()['message']}", file=sys.stderr)


def populate(client: Rest) -> None:
    """Fills the server with objects of all kinds and lets the controllers work on them."""
    for space in (SPACE, QUOTA_SPACE):
        client.send("POST", "/api/v1/namespaces", {"metadata": {"name": space}}).ok()
    wait_for_account(client)
    wanted = [*telling_objects(), *unique_samples()]
    create_all(client, [one for one in wanted if one["kind"] not in DISTURBING])
    time.sleep(SETTLE_S)
    create_all(client, [one for one in wanted if one["kind"] in DISTURBING])
    disturb(client)
    time.sleep(2)


def wait_for_account(client: Rest) -> None:
    """Waits until pods can be created in the namespace."""
    path = f"/api/v1/namespaces/{SPACE}/serviceaccounts/default"
    for _ in range(200):
        if client.get(path).code == 200:
            return
        time.sleep(0.1)
    raise LabError("the namespace got no service account")


def list_table(client: Rest, path: str) -> tuple[Json, str]:
    """Returns a table with whole objects and the time at which it was printed.

    Creation times are whole seconds; asking in the middle of one keeps an age from lying on the
    border between two values.
    """
    time.sleep((0.4 - time.time()) % 1)
    printed = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    query = urlencode({"includeObject": "Object", "limit": 200})
    return client.get(f"{path}?{query}", TABLE).ok().json(), printed


def choose_rows(rows: list[Json]) -> list[Json]:
    """Chooses rows that differ in what they show, small objects first."""
    chosen: dict[tuple[str, ...], Json] = {}
    for row in sorted(rows, key=lambda row: len(json.dumps(row["object"]))):
        row["object"]["metadata"].pop("managedFields", None)
        if len(json.dumps(row["object"])) > MAX_OBJECT_BYTES and chosen:
            continue
        shown = tuple(re.sub(r"[0-9a-f-]*\d[0-9a-f-]*", "#", str(cell)) for cell in row["cells"][1:])
        kept = {key: row[key] for key in ("cells", "conditions", "object") if key in row}
        chosen.setdefault(shown, kept)
    return list(chosen.values())[:MAX_ROWS]


def record_tables(client: Rest) -> Json:
    """Returns columns and example rows of every resource that can be listed."""
    out: Json = {}
    for item in read_discovery(client):
        group = item["metadata"].get("name", "")
        for version in item["versions"]:
            for resource in version.get("resources", []):
                if "list" not in resource["verbs"]:
                    continue
                path = resource_path(group, version["version"], resource["resource"])
                table, printed = list_table(client, path)
                columns = [
                    {key: column[key] for key in ("name", "type", "format", "priority")}
                    for column in table["columnDefinitions"]
                ]
                rows = choose_rows(table.get("rows") or [])
                out[path] = {"at": printed, "columns": columns, "rows": rows}
    return out


def record() -> None:
    """Runs a lab, records, ends the lab."""
    base = build.find_cache()
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base, prefix="record-") as directory:
        lab = Lab(Path(directory))
        try:
            lab.up(members=1, nodes=2)
            write_json(RECORDED / "discovery.json", record_discovery(lab.client("hub")))
            member = lab.client("member1")
            populate(member)
            write_json(RECORDED / "tables.json", record_tables(member))
        finally:
            lab.down(keep_data=True)


def main() -> int:
    """Command line."""
    try:
        record()
    except (LabError, RestError, build.BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
