"""A RunView as text: the tree for a terminal, and one line per change where there is none.

Pure: views in, lines out. A line is made of spans with a style name; `paint` turns it into characters, with or without
colour, and in plain ASCII where the terminal cannot do better. Every line fits the width it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from echelon.rules.forecast import span_text
from echelon.views.run_shapes import STATES, ClusterView, RunView, StageView, TaskView

MAX_CLUSTERS = 10  # shown below a stage; finished ones are only a bar, so a thousand still fit one screen
BAR = 16
DIFFERENCES = 20  # clusters of a stage up to which every change of one is a line of its own

_SYMBOLS: Mapping[str, tuple[str, str, str]] = {  # state -> symbol, the same in ASCII, style
    "succeeded": ("✓", "OK", "good"),
    "done": ("✓", "OK", "good"),
    "skipped": ("–", "SKIP", "dim"),
    "waiting": ("⏸", "WAIT", "warn"),
    "open": ("⏸", "WAIT", "warn"),
    "not counted": ("!", "!", "bad"),
    "progressing": ("▶", "RUN", "busy"),
    "updating": ("▶", "RUN", "busy"),
    "stuck": ("!", "STUCK", "bad"),
    "stopping": ("■", "STOPPING", "warn"),
    "stopped": ("■", "STOPPED", "warn"),
    "failed": ("✕", "FAIL", "bad"),
    "taken over": ("⇄", "TAKEN", "bad"),
    "gone": ("–", "GONE", "bad"),
    "pending": ("·", "..", "dim"),
    "initialized": ("·", "..", "dim"),
    "new": ("·", "..", "dim"),
}
_COLOURS = {"good": "32", "warn": "33", "bad": "1;31", "busy": "36", "dim": "2", "bold": "1"}
_ASCII = str.maketrans(
    {"→": "->", "–": "-", "·": "-", "│": "|", "├": "|", "└": "`", "─": "-", "…": "...", "█": "#", "░": " "}
)


class Span(NamedTuple):
    """A piece of a line in one style."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


class Look(NamedTuple):
    """What the terminal can do."""

    width: int = 80
    is_unicode: bool = True
    has_colour: bool = True


PLAIN = Look(has_colour=False)


def paint(line: Line, look: Look) -> str:
    """Turn a line into characters that fit the width."""
    out, room = [], look.width
    for span in line:
        text = span.text if look.is_unicode else span.text.translate(_ASCII)
        if len(text) > room:
            more = "…" if look.is_unicode else "..."
            text = text[: max(0, room - len(more))] + more[:room]
        room -= len(text)
        code = _COLOURS.get(span.style) if look.has_colour else None
        out.append(f"\x1b[{code}m{text}\x1b[0m" if code and text else text)
        if room <= 0:
            break
    return "".join(out).rstrip() if not look.has_colour else "".join(out)


def render(view: RunView, look: Look) -> list[str]:
    """Return the tree as lines of characters."""
    return [paint(line, look) for line in tree(view, look)]


def symbol(state: str, look: Look) -> Span:
    """Return the sign of a state."""
    sign, word, style = _SYMBOLS.get(state, ("?", "?", ""))
    return Span(sign if look.is_unicode else word, style)


# --- the tree ---------------------------------------------------------------------------------------------------
def tree(view: RunView, look: Look) -> list[Line]:
    """Draw a run: two lines of heading, the stages, the findings."""
    lines = [_title(view, look), _summary(view)]
    names = max((len(stage.name) for stage in view.stages), default=0)
    counts = max((len(_count(stage)) for stage in view.stages), default=0)
    signs = max((len(symbol(stage.state, look).text) for stage in view.stages), default=1)
    times = max((len(_took(view, stage)) for stage in view.stages), default=0)
    for index, stage in enumerate(view.stages):
        is_last = index == len(view.stages) - 1
        heading = Span("└─ " if is_last else "├─ ", "dim")
        lines.append((heading, *_stage(view, stage, look, Columns(signs, names, counts, times))))
        inner = [*_tasks(view, stage, look), *_clusters(view, stage, look)]
        for position, line in enumerate(inner):
            branch = "└─ " if position == len(inner) - 1 else "├─ "
            lines.append((Span(("   " if is_last else "│  ") + branch, "dim"), *line))
    if view.stale:
        lines.append((Span(f"out of date, the hub does not answer: {view.stale}", "bad"),))
    return lines + _footer(view, look)


class Columns(NamedTuple):
    """How wide the columns of the stage lines are."""

    sign: int
    name: int
    figures: int
    took: int


def _title(view: RunView, look: Look) -> Line:
    sign = symbol(view.state, look)
    where = f"{view.short_kind}, {view.namespace}" if view.namespace else view.short_kind
    return (Span(view.name, "bold"), Span(f" ({where}) "), sign, Span(f" {view.headline}", sign.style))


def _summary(view: RunView) -> Line:
    parts = []
    if view.snapshot_to:
        arrow = f"{view.snapshot_from}→" if view.snapshot_from else ""
        parts.append(f"snapshot {arrow}{view.snapshot_to}")
    parts.append(f"{view.done}/{view.total} done")
    if view.estimate:
        parts.append(_eta(view))
    return (Span(" · ".join(parts), "dim"),)


def _eta(view: RunView) -> str:
    assert view.estimate is not None
    early, late = view.estimate.earliest.astimezone(), view.estimate.latest.astimezone()
    pattern = "%H:%M" if late - view.seen_at < timedelta(hours=18) else "%d %b %H:%M"
    first, last = early.strftime(pattern), late.strftime(pattern)
    text = f"ETA {first}" if first == last else f"ETA {first}–{last}"
    count = view.estimate.approvals
    return text + (f" plus {count} approval{'s' if count > 1 else ''}" if count else "")


def _count(stage: StageView) -> str:
    return f"{stage.done}/{stage.total}"


def bar(done: int, total: int, look: Look) -> str:
    """Draw progress; full only when everything is done, empty only when nothing is."""
    full = BAR * done // total if total else BAR
    if done and not full:
        full = 1
    text = "█" * full + "░" * (BAR - full)
    return text if look.is_unicode else f"[{text.translate(_ASCII)}]"


def _stage(view: RunView, stage: StageView, look: Look, columns: Columns) -> Line:
    sign = symbol("stuck" if "S" in stage.letters else stage.state, look)
    spans = [
        Span(f"{sign.text:<{columns.sign}} ", sign.style),
        Span(f"{stage.name:<{columns.name}} "),
        Span(f"{_count(stage):>{columns.figures}}"),
    ]
    if stage.state != "pending" or stage.is_delete is False:
        spans.append(Span("  " + bar(stage.done, stage.total, look), sign.style))
    spans.append(Span(f" {_took(view, stage):<{columns.took}}"))
    if stage.state in {"updating", "pending", "waiting"} and stage.done < stage.total and not stage.is_delete:
        spans.append(Span(f"  {stage.at_a_time} at a time", "dim"))
    for task in (*stage.before, *stage.after):
        if task.state == "done":
            spans += [
                Span(f"  {task.side}: ", "dim"),
                symbol("done", look),
                Span(
                    f" {_task_words(task)}" + (f" by {task.approved_by}" if task.approved_by else ""), "dim"
                ),
            ]
        elif task.state == "pending":
            spans.append(Span(f"  {task.side}: {_task_words(task)}", "dim"))
    return tuple(spans)


def _took(view: RunView, stage: StageView) -> str:
    if stage.started_at is None:
        return ""
    return span_text((stage.ended_at or view.seen_at) - stage.started_at)


def _task_words(task: TaskView) -> str:
    return "approval" if task.kind == "approval" else f"wait {span_text(timedelta(seconds=task.wait_s))}"


def _tasks(view: RunView, stage: StageView, look: Look) -> Iterator[Line]:
    for task in (*stage.before, *stage.after):
        if task.state not in {"open", "not counted"}:
            continue
        sign = symbol(task.state, look)
        if task.kind == "wait":
            until = f" until {task.until.astimezone():%H:%M:%S}" if task.until else ""
            yield (sign, Span(f" {task.side}: {_task_words(task)}{until}"))
            continue
        note = " given, but does not count" if task.state == "not counted" else ""
        option = f" -n {view.namespace}" if view.namespace else ""
        command = f'echelon approve {view.name}/{stage.name}{option} -m "why"'
        yield (sign, Span(f" {task.side}: approval{note} → "), Span(command, "bold"))


def _clusters(view: RunView, stage: StageView, look: Look) -> Iterator[Line]:
    if stage.state in {"done", "skipped", "pending"}:
        return
    names = max((len(one.name) for one in stage.shown[:MAX_CLUSTERS]), default=0)
    for one in stage.shown[:MAX_CLUSTERS]:
        yield _cluster(view, one, names, look)
    rest = stage.letters
    for one in stage.shown[:MAX_CLUSTERS]:
        letter = next(key for key, word in STATES.items() if word == one.state)
        rest = rest.replace(letter, "", 1)
    for letter in "FTSGU":
        if rest.count(letter) and len(stage.shown) > MAX_CLUSTERS:
            yield (Span(f"… {rest.count(letter)} more {STATES[letter]}", "dim"),)


def _cluster(view: RunView, one: ClusterView, width: int, look: Look) -> Line:
    sign = symbol(one.state, look)
    since = f" {span_text(view.seen_at - one.since)}" if one.since else ""
    message = f": {one.message}" if one.message else ""
    return (sign, Span(f" {one.name:<{width}} "), Span(f"{one.state}{since}", sign.style), Span(message))


def _footer(view: RunView, look: Look) -> list[Line]:
    told = [one for one in view.findings if one.cause not in {"approval-open", "timed-wait", "not-started"}]
    if not told:
        return []
    command = f"echelon diagnose {view.ref}"
    head = f"{len(told)} finding{'s' if len(told) > 1 else ''}: "
    room = look.width - len(head) - len(command) - 2
    text = told[0].sentence
    if len(text) > room:  # a sentence of its own line is read better than a cut one
        return [
            *((Span(piece, "bad"),) for piece in wrapped(head + text, look.width)),
            (Span(" " * max(0, look.width - len(command))), Span(command, "bold")),
        ]
    return [(Span(head + text, "bad"), Span(" " * (room - len(text) + 2)), Span(command, "bold"))]


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Break text between words into lines that fit."""
    lines: list[str] = []
    line = text[: len(text) - len(text.lstrip())]
    is_new = True
    for word in text.split():
        if not is_new and len(line) + 1 + len(word) > width:
            lines.append(line)
            line, is_new = indent, True
        line += word if is_new else f" {word}"
        is_new = False
    return [*lines, line] if line else lines


# --- no terminal --------------------------------------------------------------------------------------------------
def changes(old: RunView | None, new: RunView, at: datetime) -> list[str]:
    """Say what has changed between two looks, one line each; with no earlier look, where the run is."""
    head = f"{at.astimezone():%H:%M:%S} {new.name}"
    lines: list[str] = []
    before = {stage.name: stage for stage in old.stages} if old else {}
    for stage in new.stages:
        was = before.get(stage.name)
        if was is None:
            continue
        lines += _cluster_changes(was, stage, head)
        if was.state != stage.state:
            lines.append(f"{head} stage {stage.name} {stage.state} ({_count(stage)})")
        for task, earlier in zip((*stage.before, *stage.after), (*was.before, *was.after), strict=False):
            if task.state == "done" != earlier.state:
                lines.append(f"{head} stage {stage.name} {_task_words(task)} {task.side} it: done")
    if old is None or _key(old) != _key(new):
        lines.append(f"{head} {new.headline} ({new.done}/{new.total} done)")
    seen = {finding.sentence for finding in old.findings} if old else set()
    lines += [
        f"{head} finding: {one.sentence}"
        for one in new.findings
        if _is_news(one.cause) and one.sentence not in seen
    ]
    return lines


def _is_news(cause: str) -> bool:
    return cause not in {
        "approval-open",
        "timed-wait",
        "not-started",
        "stopping",
        "stopped",
        "concurrency-one",
    }


def _key(view: RunView) -> tuple[object, ...]:
    tasks = tuple(task.state for stage in view.stages for task in (*stage.before, *stage.after))
    return (view.state, tasks, tuple(stage.state for stage in view.stages))


def _cluster_changes(was: StageView, stage: StageView, head: str) -> Iterator[str]:
    if was.letters == stage.letters:
        return
    if was.clusters != stage.clusters or stage.total > DIFFERENCES:
        troubled = {one.name: one for one in stage.shown if one.state != "updating"}
        known = {one.name for one in was.shown if one.state != "updating"}
        for name in sorted(troubled.keys() - known):
            yield f"{head} {name} {troubled[name].state}"
        if was.done * 10 // max(1, was.total) != stage.done * 10 // max(1, stage.total):
            yield f"{head} stage {stage.name} {_count(stage)} done"
        return
    done = was.done
    for name, before, now in zip(stage.clusters, was.letters, stage.letters, strict=True):
        if before != now:
            done += (now == "D") - (before == "D")
            yield f"{head} {name} {STATES[now]} ({done}/{stage.total} of stage {stage.name} done)"
