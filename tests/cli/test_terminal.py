"""`echelon watch` in a real terminal: a picture that changes in place, keys, and a terminal given back as it was."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from fcntl import ioctl

import pytest

from echelon.cli.screen import Screen, keys_of
from tests.cli.test_commands import Shop
from tests.live import ECHELON, live  # noqa: F401 - a fixture

DEADLINE_S = 30


class Terminal:
    """A program in a terminal of 80 columns."""

    def __init__(self, live, *arguments):
        self.parent, child = pty.openpty()
        ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {key: value for key, value in live.environment.items() if key != "NO_COLOR"}
        environment |= {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.before = termios.tcgetattr(child)
        self.process = subprocess.Popen(
            [ECHELON, *arguments],
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment,
            start_new_session=True,
        )
        self.child = child
        self.text = ""

    def read(self, timeout=0.2):
        while select.select([self.parent], [], [], timeout)[0]:
            self.text += os.read(self.parent, 65536).decode("utf-8", "replace")

    def until(self, words):
        deadline = time.monotonic() + DEADLINE_S
        while words not in self.plain():
            assert time.monotonic() < deadline, self.plain()
            assert self.process.poll() is None or words in self.plain(), self.plain()
            self.read()

    def plain(self):
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)

    def type(self, keys):
        os.write(self.parent, keys.encode())

    def end(self):
        code = self.process.wait(DEADLINE_S)
        self.read()
        after = termios.tcgetattr(self.child)
        os.close(self.child)
        os.close(self.parent)
        assert after[:4] == self.before[:4], "the terminal is as it was"
        assert self.text.rindex("\x1b[?25h") > self.text.rindex("\x1b[?25l"), "the cursor is back"
        return code


@pytest.fixture
def shop(live, request):
    live.kubectl("label", "membercluster", "member1", "stage=canary", "--overwrite")
    live.kubectl("label", "membercluster", "member2", "member3", "stage=prod", "--overwrite")
    made = Shop(live, "", request.node.name.replace("_", "-")[-20:].strip("-"))
    made.begin()
    return made


def test_approving_with_a_key(live, shop):
    shop.run("keys1")
    shown = Terminal(live, "watch", "keys1")
    shown.until('approval before "prod"')
    shown.type("?")
    shown.until("a approve")
    shown.type("d")
    shown.until("Run keys1 has been waiting")
    shown.type("a")
    shown.until("Why:")
    shown.type("canary is fine\n")
    shown.until("[y/N]:")
    shown.type("y\n")
    shown.until("approved by")
    shown.until("succeeded")
    assert shown.end() == 0
    assert "\x1b[32m" in shown.text, "colours"


def test_stopping_with_a_key_and_quitting(live, shop):
    shop.run("keys2")
    shown = Terminal(live, "watch", "keys2")
    shown.until('approval before "prod"')
    shown.type("q")
    assert shown.end() == 0
    shown = Terminal(live, "watch", "keys2")
    shown.until('approval before "prod"')
    shown.type("s")
    shown.until("stop keys2; why:")
    shown.type("lunch\n")
    shown.until("keys2 stops")
    shown.until("stopped")
    assert shown.end() == 5


def test_control_c_leaves_a_clean_terminal(live, shop):
    shop.run("keys3")
    shown = Terminal(live, "watch", "keys3")
    shown.until('approval before "prod"')
    os.killpg(shown.process.pid, signal.SIGINT)
    assert shown.end() == 130
    assert "Traceback" not in shown.text


# --- the picture ------------------------------------------------------------------------------------------------
def test_only_changed_lines_are_written_again():
    written: list[str] = []
    screen = Screen(written.append, height=24)
    screen.draw(["one", "two", "three"])
    screen.draw(["one", "2", "three"])
    assert "one" not in written[1]
    assert "2\x1b[K" in written[1]
    assert "three" not in written[1]
    screen.draw(["one", "2", "three"])
    assert len(written) == 2, "nothing changed, nothing written"


def test_a_shorter_picture_leaves_nothing_behind():
    written: list[str] = []
    screen = Screen(written.append, height=24)
    screen.draw(["one", "two"])
    screen.draw(["one"])
    assert written[1].endswith("\x1b[J")


def test_a_picture_higher_than_the_terminal_is_cut_and_can_be_scrolled():
    written: list[str] = []
    screen = Screen(written.append, height=4)
    screen.draw([str(number) for number in range(10)])
    assert re.findall(r"\d", re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", written[0])) == ["0", "1", "2"]
    screen.draw([str(number) for number in range(10)], offset=5)
    assert "7" in written[1]


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        (b"a", ["a"]),
        (b"?a", ["?", "a"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1b[15~q", ["q"]),
        (b"\x1b", ["\x1b"]),
    ],
)
def test_keys_are_told_apart(typed, keys):
    assert keys_of(typed) == keys
