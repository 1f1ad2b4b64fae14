"""Writes how built-in kinds look as protocol buffers to src/echelon/hub/data/wire.json.

    python3 tools/real/wire.py

kubectl and client-go send built-in kinds in that form. Field numbers stand in no document that a server
gives away, so a small Go program (modules/wire) reads them from the types of the published client library.
Only kinds that builtin.json knows are kept. Fields of a type: `{number: [JSON name, code]}`, with an "a" behind where
JSON shows the field always, even if it is empty. A code is

    s string   i integer   b boolean   d double   y bytes   T time   U microtime   D duration
    Q quantity   I integer or string   R any object   F managed fields   @type a message of that type
    *x a pointer, whose zero counts   [x a list   {x a map from strings   Vx a message that holds a list
    ^@type a message whose fields belong to the object around it
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import build

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src" / "echelon" / "hub" / "data"
ALWAYS = {"v1/DeleteOptions", "v1/List"}
Types = dict[str, dict[str, list[str]]]


def read_facts() -> dict[str, Any]:
    """Runs the Go program in a copy of the wrapper module that pins the library."""
    versions = build.load_versions()
    work = build.find_release(versions) / "src" / "wire"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(build.MODULES / "kubernetes", work)
    shutil.copytree(build.MODULES / "wire", work / "wire")
    go = build.find_go()
    env = build.go_env(versions)
    found: dict[str, Any] = json.loads(build.run_command([go, "run", "-mod=mod", "./wire"], work, env))
    return found


def served_kinds() -> set[str]:
    """Names the kinds that the embedded hub knows, subresources' ones included."""
    builtin = json.loads((DATA / "builtin.json").read_text())
    found = set(ALWAYS)
    for resource in builtin["resources"]:
        for version in resource["versions"]:
            named = (resource["group"], version["version"], resource["kind"])
            others = [(s["group"], s["version"], s["kind"]) for s in version.get("subresources", [])]
            found |= {f"{g + '/' if g else ''}{v}/{k}" for g, v, k in (named, *others)}
    return found


def reachable(starts: set[str], types: Types) -> Types:
    """Keeps the types that the starting ones lead to."""
    kept: Types = {}
    waiting = sorted(starts)
    while waiting:
        name = waiting.pop()
        if name in kept:
            continue
        kept[name] = types[name]
        waiting += [code.partition("@")[2] for _, code, *_ in types[name].values() if "@" in code]
    return kept


def main() -> int:
    """Writes the file, one line per type."""
    facts = read_facts()
    kinds = {kind: name for kind, name in sorted(facts["kinds"].items()) if kind in served_kinds()}
    types = reachable(set(kinds.values()), facts["types"])
    lines = [f"{json.dumps(name)}:{json.dumps(types[name], separators=(',', ':'))}" for name in sorted(types)]
    text = f'{{"kinds":{json.dumps(kinds, separators=(",", ":"))},\n"types":{{\n' + ",\n".join(lines) + "}}\n"
    (DATA / "wire.json").write_text(text)
    print(f"{len(kinds)} kinds, {len(types)} types, {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
