"""Differences of the embedded hub that are known: named one by one, with a reason, and asserted to still be there."""

from __future__ import annotations

from pathlib import Path

import yaml

FILE = Path(__file__).parent / "known.yaml"


def load_known(file: Path = FILE) -> dict[str, str]:
    """Returns the reason for each sequence or session that may differ."""
    return yaml.safe_load(file.read_text()) or {}
