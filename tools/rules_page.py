"""Makes docs/rules.md: every rule by its id, and the phases of runs with their wording and moves, from the code itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

from echelon.rules.run_phases import (
    MOVES,
    PHASES,
    ApprovalPhase,
    ClusterPhase,
    Phase,
    RunPhase,
    StagePhase,
    TaskPhase,
)

RULES = Path(__file__).parent.parent / "src" / "echelon" / "rules"
_RULE = re.compile(r"\b(R-[A-Z]+-\d+): ((?:[^.]|\.(?=\S))*)\.?")
_HEAD = """# Rules
Generated from `src/echelon/rules` by `./dev python -m tools.generate`; do not edit.

A rule is a sentence in the docstring of the function that carries it out. Names, condition types, reasons and messages
are promises: scripts and people search for them.
"""
_KINDS: Mapping[type[Enum], str] = {
    RunPhase: "Runs",
    StagePhase: "Stages (and the delete stage)",
    ClusterPhase: "Clusters of a run",
    TaskPhase: "Tasks of a stage",
    ApprovalPhase: "Approval requests",
}


def rules() -> str:
    """Return the text of docs/rules.md."""
    parts = [_HEAD, "## Phases of a run and their conditions"]
    for kind, title in _KINDS.items():
        parts.append(_phases(kind, title))
    parts.append("## Moves between phases")
    parts.append(
        "What a run does next. Anything that is not an arrow does not happen; simulations check every move."
    )
    parts += [_diagram(kind, _KINDS[kind]) for kind in (RunPhase, StagePhase)]
    parts.append("## All rules by id")
    parts.append(_table(("id", "rule", "where"), _all_rules()))
    return "\n\n".join(parts) + "\n"


def _phases(kind: type[Enum], title: str) -> str:
    rows = []
    for phase, marks in PHASES.items():
        if not isinstance(phase, kind):
            continue
        for number, mark in enumerate(marks):
            what = phase.value if number == 0 else ""
            rows.append((what, mark.type, mark.status, f"`{mark.reason}`", f"`{mark.message}`"))
    return f"### {title}\n{_table(('phase', 'condition', 'status', 'reason', 'message'), rows)}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _diagram(kind: type[Enum], title: str) -> str:
    lines = [f"### {title}", "```mermaid", "stateDiagram-v2"]
    lines += [f'    state "{_short(phase)}" as {phase.name}' for phase in kind]
    lines.append("    [*] --> NEW")
    lines += [
        f"    {move.source.name} --> {move.target.name}: {move.when.replace(':', ',')}"
        for move in MOVES
        if isinstance(move.source, kind)
    ]
    ends = {move.source for move in MOVES}
    lines += [f"    {phase.name} --> [*]" for phase in kind if phase not in ends]
    return "\n".join([*lines, "```"])


def _short(phase: Phase | Enum) -> str:
    return str(phase.value).partition(":")[0]


def _all_rules() -> list[tuple[str, ...]]:
    found: dict[str, tuple[str, str, str]] = {}
    for path in sorted(RULES.glob("*.py")):
        for text in _docstrings(path):
            for id_, rule in _RULE.findall(text):
                found.setdefault(id_, (id_, " ".join(rule.split()), f"`{path.name}`"))
    return [found[id_] for id_ in sorted(found, key=_by_number)]


def _by_number(id_: str) -> tuple[str, int]:
    word, _, number = id_.rpartition("-")
    return word, int(number)


def _docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node)
            if text:
                yield text
