"""Reads and writes what the real server answered: one file per topic, one line per sequence."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.conformance.runner import Result

Json = dict[str, Any]
RECORDED = Path(__file__).parent / "recorded"


def load_recorded(folder: Path = RECORDED) -> dict[str, list[Json]]:
    """Returns the recorded answers by sequence id."""
    found: dict[str, list[Json]] = {}
    for file in sorted((folder / "sequences").glob("*.json")):
        for name, answers in json.loads(file.read_text()).items():
            found[f"{file.stem}/{name}"] = answers
    return found


def save_recorded(results: Iterable[Result], folder: Path = RECORDED) -> None:
    """Writes answers; topics keep the recordings of sequences that were not run now."""
    by_topic: dict[str, Json] = defaultdict(dict)
    for result in results:
        by_topic[result.sequence.topic][result.sequence.name] = result.answers
    (folder / "sequences").mkdir(parents=True, exist_ok=True)
    for topic, entries in by_topic.items():
        file = folder / "sequences" / f"{topic}.json"
        kept = json.loads(file.read_text()) if file.exists() else {}
        kept.update(entries)
        lines = [
            f"{json.dumps(name)}: {json.dumps(answers, separators=(',', ':'), sort_keys=True)}"
            for name, answers in sorted(kept.items())
        ]
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def forget_unknown(known: set[str], folder: Path = RECORDED) -> None:
    """Removes recordings of sequences that are no more."""
    for file in sorted((folder / "sequences").glob("*.json")):
        entries = json.loads(file.read_text())
        kept = {name: one for name, one in entries.items() if f"{file.stem}/{name}" in known}
        if not kept:
            file.unlink()
        elif len(kept) < len(entries):
            lines = [
                f"{json.dumps(name)}: {json.dumps(one, separators=(',', ':'), sort_keys=True)}"
                for name, one in sorted(kept.items())
            ]
            file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
