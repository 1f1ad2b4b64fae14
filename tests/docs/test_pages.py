"""What the pages say is what happens: their commands are run, their output is compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, missing, plain, run, steps_of

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if "```console" in path.read_text()
)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(#[^)]*)?\)")


@pytest.mark.kubectl
@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(page, tmp_path):
    steps = steps_of((ROOT / page).read_text())
    try:
        results = run(steps, tmp_path)
    finally:
        run(steps_of("```console\n$ echelon down\n```\n"), tmp_path)
    assert len(results) == len(steps), results[-1:]
    for step, (code, output) in zip(steps, results, strict=True):
        assert code == step.code, f"$ {step.command}\nended with {code}:\n{output}"
        line = missing(step, output)
        assert line is None, f"$ {step.command}\ndid not print: {line}\nbut:\n{output}"


def test_pages_are_executed_at_all():
    assert "README.md" in PAGES
    assert len(PAGES) >= 6


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: path.name
)
def test_links_lead_somewhere(path: Path):
    for target, _ in LINK.findall(path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_what_differs_from_day_to_day_is_not_compared():
    assert (
        plain("web   12m   ready: https://127.0.0.1:4711 (pid 12)") == "web SPAN ready: https://ADDRESS (PID)"
    )
