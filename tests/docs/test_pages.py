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


EXAMPLES = """```console
$ echelon up --detach
$ export KUBECONFIG=~/.local/state/echelon/kubeconfig
$ kubectl label membercluster member1 environment=canary
$ kubectl label membercluster member2 member3 environment=production
$ kubectl apply -f examples/01-first-run
$ kubectl wait csur/web-v1 --for=condition=Initialized
$ echelon start web-v1
$ echelon watch web-v1 --timeout 30s
$ kubectl apply -f examples/02-approvals
$ echelon watch web-v2 --until approval --timeout 30s
$ echelon approve web-v2 -m "tested" --yes
$ echelon watch web-v2 --timeout 30s
$ kubectl apply -f examples/03-overrides
$ echelon watch web-v3 --timeout 30s
$ for context in hub member1 member2 member3; do kubectl --context $context create namespace team; done
$ kubectl apply -f examples/04-namespaced
$ echelon watch settings-v1 -n team --timeout 30s
$ kubectl --context member3 get configmap settings -n team -o jsonpath='{.data.colour}'
green
$ echelon runs -A -o name
clusterstagedupdaterun.placement.kubernetes-fleet.io/web-v3
...
stagedupdaterun.placement.kubernetes-fleet.io/settings-v1
```"""


@pytest.mark.kubectl
def test_the_examples_go_through_one_after_the_other(tmp_path):
    steps = steps_of(EXAMPLES)
    try:
        results = run(steps, tmp_path)
    finally:
        run(steps_of("```console\n$ echelon down\n```\n"), tmp_path)
    for step, (code, output) in zip(steps, results, strict=True):
        assert code == 0, f"$ {step.command}\n{output}"
    assert missing(steps[-2], results[-2][1]) is None
    names = {line.rpartition("/")[2] for line in results[-1][1].splitlines() if line}
    assert names == {"web-v1", "web-v2", "web-v3", "settings-v1"}


def test_every_example_is_in_the_list():
    folders = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}
    assert all(f"examples/{name}" in EXAMPLES for name in folders)
    assert all(f"`{name}`" in (ROOT / "examples/README.md").read_text() for name in folders)
