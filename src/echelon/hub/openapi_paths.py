"""The paths of OpenAPI documents: which operations a kind has, with the parameters clients look for.

What it decides: operation ids, parameters (kubectl looks for `fieldValidation` and
`dryRun`), and the kind each operation is about.

What it must never do: hold schemas; it refers to them by name.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.kinds import Kind, Subresource

Json = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
STATUS, PATCH, DELETE_OPTIONS = META + "Status", META + "Patch", META + "DeleteOptions"
SCALE = "io.k8s.api.autoscaling.v1.Scale"

_TEXTS = {
    "allowWatchBookmarks": ("boolean", "Ask a watch for bookmark events."),
    "continue": ("string", "The token of the next page, from the page before."),
    "dryRun": ("string", "`All` runs every check and stores nothing."),
    "fieldManager": ("string", "Who makes the change; an apply requires it."),
    "fieldSelector": ("string", "Select objects by their fields."),
    "fieldValidation": ("string", "What unknown and repeated fields are: `Ignore`, `Warn` or `Strict`."),
    "force": ("boolean", "Let an apply take over fields that others own."),
    "gracePeriodSeconds": ("integer", "Seconds until the object is gone; zero is at once."),
    "ignoreStoreReadErrorWithClusterBreakingPotential": ("boolean", "Delete an object that cannot be read."),
    "labelSelector": ("string", "Select objects by their labels."),
    "limit": ("integer", "The most objects in one page."),
    "orphanDependents": ("boolean", "Deprecated: use propagationPolicy."),
    "pretty": ("string", "`true` prints the answer for people."),
    "propagationPolicy": ("string", "What happens to dependents: `Orphan`, `Background` or `Foreground`."),
    "resourceVersion": ("string", "The version the answer must be at or after."),
    "resourceVersionMatch": ("string", "How resourceVersion is meant: `Exact` or `NotOlderThan`."),
    "sendInitialEvents": ("boolean", "Begin a watch with what is there."),
    "timeoutSeconds": ("integer", "Seconds after which a list or watch ends."),
    "watch": ("boolean", "Send changes as they happen."),
}
_LIST = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "pretty",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
]
_WRITE = ["dryRun", "fieldManager", "fieldValidation"]
_DELETE = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
]


def _query(names: list[str]) -> list[Json]:
    return [
        {
            "name": name,
            "in": "query",
            "description": _TEXTS[name][1],
            "schema": {"type": _TEXTS[name][0], "uniqueItems": True},
        }
        for name in names
    ]


def _in_path(name: str, text: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "description": text,
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }


_PRETTY = _query(["pretty"])[0]


def ref(name: str) -> Json:
    """Refer to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _tag(kind: Kind) -> str:
    group = kind.group.removesuffix(".k8s.io") or "core"
    first, *rest = group.split(".")
    return first + "".join(part.capitalize() for part in rest) + "_" + kind.version


class Operations:
    """Writes the operations of one kind."""

    def __init__(self, kind: Kind, item: str, items: str) -> None:
        self.kind, self.item, self.items = kind, item, items
        tag, version = _tag(kind).rsplit("_", 1)
        self.tags = [f"{tag}_{version}"]
        self.stem = tag[:1].upper() + tag[1:] + version.capitalize()
        self.media = ["application/json", "application/yaml"]
        if not kind.custom:
            self.media.insert(1, "application/vnd.kubernetes.protobuf")

    def paths(self) -> Json:
        """Return the paths of the kind, its subresources included."""
        kind = self.kind
        base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        scoped = (
            f"{base}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
        )
        space = [_in_path("namespace", "The namespace.")] if kind.namespaced else []
        found: Json = {}
        collection = self._collection()
        if collection:
            found[scoped] = {**collection, "parameters": [*space, _PRETTY]}
        if kind.namespaced and "list" in kind.verbs:
            op = self._operation("list", f"list{self.stem}{kind.kind}ForAllNamespaces", self.items)
            found[f"{base}/{kind.plural}"] = {"get": op, "parameters": _query(_LIST)}
        names = [_in_path("name", f"The name of the {kind.kind}."), *space, _PRETTY]
        single = self._single(kind.verbs, "", self.item)
        if single:
            found[f"{scoped}/{{name}}"] = {**single, "parameters": names}
        for sub in kind.subresources.values():
            found[f"{scoped}/{{name}}/{sub.name}"] = {**self._subresource(sub), "parameters": names}
        return found

    def _collection(self) -> Json:
        verbs, name = self.kind.verbs, self._scoped(self.kind.kind)
        found: Json = {}
        if "list" in verbs:
            op = self._operation("list", f"list{self.stem}{name}", self.items)
            found["get"] = {**op, "parameters": _query([each for each in _LIST if each != "pretty"])}
        if "create" in verbs:
            found["post"] = self._write("post", f"create{self.stem}{name}", self.item, self.item)
        if "deletecollection" in verbs:
            op = self._operation("deletecollection", f"delete{self.stem}Collection{name}", STATUS)
            found["delete"] = {**op, "parameters": _query([*_LIST, *_DELETE])}
        return found

    def _single(self, verbs: tuple[str, ...], suffix: str, answer: str) -> Json:
        name = self._scoped(self.kind.kind) + suffix
        found: Json = {}
        if "get" in verbs:
            found["get"] = self._operation("get", f"read{self.stem}{name}", answer)
        if "update" in verbs:
            found["put"] = self._write("put", f"replace{self.stem}{name}", answer, answer)
        if "create" in verbs and suffix:
            found["post"] = self._write("post", f"create{self.stem}{name}", answer, answer)
        if "delete" in verbs:
            op = self._operation("delete", f"delete{self.stem}{name}", STATUS)
            body = {"content": {media: {"schema": ref(DELETE_OPTIONS)} for media in self.media}}
            found["delete"] = {**op, "parameters": _query(_DELETE), "requestBody": body}
        if "patch" in verbs:
            found["patch"] = self._patch(f"patch{self.stem}{name}", answer)
        return found

    def _subresource(self, sub: Subresource) -> Json:
        answer = SCALE if sub.kind == "Scale" else self.item
        return self._single(sub.verbs, sub.name.capitalize(), answer)

    def _scoped(self, name: str) -> str:
        return ("Namespaced" if self.kind.namespaced else "") + name

    def _operation(self, action: str, name: str, answer: str) -> Json:
        kind = self.kind
        content = {media: {"schema": ref(answer)} for media in self.media}
        return {
            "tags": self.tags,
            "description": f"{action} {kind.kind}",
            "operationId": name,
            "responses": {
                "200": {"description": "OK", "content": content},
                "401": {"description": "Unauthorized"},
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": kind.group,
                "version": kind.version,
                "kind": kind.kind,
            },
        }

    def _write(self, action: str, name: str, body: str, answer: str) -> Json:
        op = self._operation(action, name, answer)
        op["parameters"] = _query(_WRITE)
        content = {media: {"schema": ref(body)} for media in self.media}
        op["requestBody"] = {"content": content, "required": True}
        created = op["responses"]["200"]
        op["responses"]["201"] = {**created, "description": "Created"}
        return op

    def _patch(self, name: str, answer: str) -> Json:
        op = self._operation("patch", name, answer)
        op["parameters"] = _query([*_WRITE, "force"])
        media = [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ]
        if not self.kind.custom:
            media.append("application/strategic-merge-patch+json")
        content = {each: {"schema": ref(PATCH)} for each in media}
        op["requestBody"] = {"content": content, "required": True}
        return op
