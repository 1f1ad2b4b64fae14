"""The pages of docs/ that are made from the product itself: troubleshooting, the API reference, the commands.

Pure text, the same on every machine. `./dev check` fails when a page is out of date.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from echelon.api.crds import crd
from echelon.api.registry import OWN
from echelon.api.resource import Resource
from echelon.cli.main import COMMANDS, echelon
from echelon.rules.diagnose_causes import GROUPS, Cause
from echelon.rules.diagnose_parts import fill

WORDS: Mapping[str, str] = {
    "run": "web-v7", "n": "", "placement": "web", "strategy": "safe", "stage": "prod", "cluster": "member2",
    "clusters": "member2", "where": "on member2", "object": "Deployment web/nginx", "kind_ref": "deployment nginx -n web",
    "object_n": " -n web", "namespace": "web", "pod": "nginx-5d9874b8b9-gnmm2", "binding": "web-member2-e1a567da",
    "approval": "web-v7-before-prod", "run_kind": "csur", "placement_kind": "crp", "strategy_kind": "csus",
    "binding_kind": "crb", "approval_kind": "careq", "snapshot_kind": "crs", "failed": "could not be planned",
    "rival": "run web-v8", "type": "RollingUpdate", "side": "before", "detail": "what exactly is said here",
    "key": "order", "value": "first", "index": "7", "since": "14m", "until": "14:03:12 UTC", "image": "nginx:1.99",
    "reason": "ImagePullBackOff", "container": "nginx", "observed": "0", "generation": "1", "status": "False",
    "count": "3", "done": "230", "total": "1000", "percent": "30%", "rounded": "0",
}  # fmt: skip
HEAD = "<!-- Generated from the code by `./dev python -m tools.generate`; edit the code, not this page. -->\n"


def anchor(title: str) -> str:
    """Return the anchor that a heading gets."""
    kept = "".join(char for char in title.lower() if char.isalnum() or char in " -")
    return kept.replace(" ", "-")


# --- troubleshooting ----------------------------------------------------------------------------------------------
def troubleshooting() -> str:
    """Make docs/troubleshooting.md from the catalogue of causes."""
    return "\n".join(_troubleshooting())


def _troubleshooting() -> Iterator[str]:
    yield HEAD
    yield "# Troubleshooting\n"
    yield "One command looks for all of this and says which it is:\n"
    yield "```sh\nechelon diagnose web-v7              # a run: csur/NAME, or NAME -n NAMESPACE"
    yield "echelon diagnose web-v7 member2      # only one cluster of it"
    yield "echelon diagnose crp/web             # a placement that is not rolled out\n```\n"
    yield (
        "It walks from the run to its stages, clusters, bindings, works and, where the kubeconfig has a context with\n"
        "the member's name, to the objects and pods there. Causes stand in the order of blame; what many clusters share\n"
        "is told once. This page is the catalogue it works from.\n"
    )
    yield "| what you see | cause |\n|---|---|"
    for group in GROUPS:
        for cause in group.causes:
            if cause.seen_as:
                yield f"| `{_cell(fill(cause.seen_as, WORDS))}` | [{cause.title}](#{anchor(cause.title)}) |"
    for group in GROUPS:
        yield f"\n## {group.title}\n"
        for cause in group.causes:
            yield from _cause(cause)


def _cell(text: str) -> str:
    return text.replace("`", "'").replace("|", "\\|")


def _cause(cause: Cause) -> Iterator[str]:
    yield f"### {cause.title}\n"
    yield f"> {fill(cause.sentence, WORDS)}\n"
    yield f"- **Recovers by itself?** {cause.recovers}"
    yield f"- **Fix:** {fill(cause.fix, WORDS)}"
    yield f"- **Cause id:** `{cause.id}`\n"
    yield "```sh"
    yield from (fill(command, WORDS) for command in cause.next)
    yield "```\n"


# --- API reference ------------------------------------------------------------------------------------------------
def api_reference() -> str:
    """Make docs/api.md from the types."""
    lines = [HEAD, "# API reference\n", "`kubectl explain KIND.FIELD` prints the same.\n"]
    kinds = twins()
    lines += [f"- [{_title(pair)}](#{anchor(_title(pair))})" for pair in kinds]
    for pair in kinds:
        lines += ["", *_kind(pair)]
    return "\n".join(lines) + "\n"


def twins() -> list[tuple[Resource, ...]]:
    """Return the kinds, the cluster-scoped and the namespaced twin (which have the same fields) together."""
    pairs: dict[type, tuple[Resource, ...]] = {}
    for one in OWN:
        pairs[one.type] = (*pairs.get(one.type, ()), one)
    return list(pairs.values())


def _title(pair: tuple[Resource, ...]) -> str:
    return " and ".join(one.kind for one in pair)


def _kind(pair: tuple[Resource, ...]) -> Iterator[str]:
    resource = pair[0]
    definition = crd(resource)["spec"]
    stored = next(version for version in definition["versions"] if version["storage"])
    schema = stored["schema"]["openAPIV3Schema"]
    served = ", ".join(f"`{version['name']}`" for version in definition["versions"])
    yield f"## {_title(pair)}\n"
    yield f"{schema.get('description', '').strip()}\n"
    yield f"`{resource.group}`, {served}.\n"
    for one in pair:
        scope = "namespaced" if one.namespaced else "cluster-scoped"
        short = f", short name `{one.short_names[0]}`" if one.short_names else ""
        yield f"- `{one.kind}` (`{one.plural}`): {scope}{short}"
    yield ""
    yield "| field | type | | meaning |\n|---|---|---|---|"
    skipped = {"apiVersion", "kind", "metadata"}
    for name, field in sorted(schema.get("properties", {}).items()):
        if name not in skipped:
            yield from _field(name, field, name in schema.get("required", ()))


def _field(path: str, field: Mapping[str, Any], is_required: bool) -> Iterator[str]:
    facts = ["required"] if is_required else []
    if "default" in field:
        facts.append(f"default `{field['default']}`")
    if "enum" in field:
        facts.append(" ".join(f"`{value}`" for value in field["enum"]))
    meaning = " ".join(str(field.get("description", "")).split()).replace("|", "\\|")
    yield f"| `{path}` | {_type(field)} | {', '.join(facts)} | {meaning} |"
    inner, suffix = field, ""
    while "items" in inner or isinstance(inner.get("additionalProperties"), dict):
        is_list = "items" in inner
        inner = inner["items"] if is_list else inner["additionalProperties"]
        suffix += "[]" if is_list else ".*"
    if path.endswith(("conditions", "conditions[]")):
        return  # the standard Kubernetes shape, explained once by Kubernetes
    for name, deeper in sorted(inner.get("properties", {}).items()):
        yield from _field(f"{path}{suffix}.{name}", deeper, name in inner.get("required", ()))


def _type(field: Mapping[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "number or text"
    if "items" in field:
        return f"list of {_type(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(field['additionalProperties'])}"
    return str(field.get("type", "any"))


# --- commands -------------------------------------------------------------------------------------------------------
def commands() -> str:
    """Make docs/commands.md from the command line itself."""
    root = click.Context(echelon, info_name="echelon", max_content_width=100, terminal_width=100)
    lines = [HEAD, "# Commands\n", "Also as `kubectl echelon ...`. Exit codes: 0 done, 1 error, 2 usage;"]
    lines += [
        "`watch` and `status` also 3 failed, 4 stuck (`--fail-on-stuck`), 5 stopped, 6 timeout;",
        "`diff` 0 the same, 1 different, 2 error; `plan` 1 refused.\n",
    ]
    for name in COMMANDS:
        command = echelon.get_command(root, name)
        if command is None:
            continue
        lines += [f"## echelon {name}\n", *_help(command, root, name)]
        if isinstance(command, click.Group):
            context = click.Context(command, root, info_name=name, max_content_width=100, terminal_width=100)
            for inner in command.list_commands(context):
                sub = command.get_command(context, inner)
                if sub is not None:
                    lines += [f"### echelon {name} {inner}\n", *_help(sub, context, inner)]
    return "\n".join(lines)


def _help(command: click.Command, parent: click.Context, name: str) -> list[str]:
    context = click.Context(command, parent, info_name=name, max_content_width=100, terminal_width=100)
    return ["```text", command.get_help(context), "```\n"]
