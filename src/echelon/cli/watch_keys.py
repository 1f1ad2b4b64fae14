"""The live picture of `echelon watch` in a terminal: the tree, and keys that open the same prompts as the commands."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import click

from echelon.cli.connect import Hub
from echelon.cli.follow import follow
from echelon.cli.output import look_of
from echelon.cli.screen import Screen, height_of, live
from echelon.cli.watch import HELP, REACHED, TICK_S, outcome
from echelon.views.tree import render, wrapped

if TYPE_CHECKING:
    from echelon.cli.lookup import Ref
    from echelon.views.run_shapes import RunView


class Watcher:
    """One live picture of one run."""

    def __init__(self, hub: Hub, ref: Ref, until: str, *, fail_on_stuck: bool, no_color: bool) -> None:
        self.hub, self.ref, self.until = hub, ref, until
        self.fail_on_stuck, self.no_color = fail_on_stuck, no_color
        self.screen = Screen()
        self.view: RunView | None = None
        self.offset = 0
        self.has_diagnosis = False
        self.has_help = False
        self._keys: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> int:
        """Show the run until it is where one waits for, or somebody quits."""
        with live(self._keys.put_nowait) as paused:
            async with contextlib.aclosing(follow(self.hub, self.ref, TICK_S)) as views:
                following = asyncio.ensure_future(anext(views))
                typing = asyncio.ensure_future(self._keys.get())
                try:
                    while True:
                        await asyncio.wait({following, typing}, return_when=asyncio.FIRST_COMPLETED)
                        if typing.done():
                            if not await self._press(typing.result(), paused):
                                return REACHED
                            typing = asyncio.ensure_future(self._keys.get())
                            self._draw()
                        if following.done():
                            self.view = following.result()
                            self._draw()
                            code = outcome(self.view, self.until, fail_on_stuck=self.fail_on_stuck)
                            if code is not None:
                                return code
                            following = asyncio.ensure_future(anext(views))
                finally:
                    for task in (following, typing):
                        task.cancel()
                    await asyncio.gather(following, typing, return_exceptions=True)

    def _draw(self) -> None:
        if self.view is None:
            return
        look = look_of(no_color=self.no_color)
        lines = render(self.view, look)
        if self.has_diagnosis:
            lines += ["", *diagnosis_lines(self.view, look.width)]
        if self.has_help:
            lines += ["", HELP if look.is_unicode else HELP.replace("·", "-").replace("↑↓", "arrows")]
        self.offset = max(0, min(self.offset, len(lines) - height_of() + 1))
        self.screen.draw(lines, self.offset)

    async def _press(self, key: str, paused: object) -> bool:
        """Do what a key asks; False to quit."""
        if key in {"q", "\x03", "\x04"}:
            return False
        if key == "d":
            self.has_diagnosis = not self.has_diagnosis
        elif key == "?":
            self.has_help = not self.has_help
        elif key in {"up", "down"}:
            self.offset = max(0, self.offset + (1 if key == "down" else -1))
        elif key in {"a", "s"} and self.view is not None:
            assert callable(paused)
            with paused():
                await self._ask(key)
            self.screen.forget()
        return True

    async def _ask(self, key: str) -> None:
        from echelon.cli.approve import approve_prompt
        from echelon.cli.change import state_prompt

        assert self.view is not None
        try:
            if key == "a":
                await approve_prompt(self.hub, self.ref, self.view)
            else:
                await state_prompt(self.hub, self.ref, self.view)
        except click.ClickException as error:
            click.echo(f"error: {error.format_message()}", err=True)
        except click.Abort:
            click.echo("nothing was done", err=True)


def diagnosis_lines(view: RunView, width: int) -> list[str]:
    """Write the findings below the tree."""
    lines: list[str] = []
    for finding in view.findings:
        lines += wrapped(f"* {finding.sentence}", width, "  ")
        lines += [f"  next: {command}" for command in finding.next[:1]]
    return lines or ["nothing is wrong"]
