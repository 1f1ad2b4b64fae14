"""Regular expressions of users: CRD patterns and CEL `matches`, in linear time.

What it decides: which engine runs a pattern. RE2 is the judge of syntax and runs
everything; Python's `re`, thirty times faster per match, runs only patterns
proven here to need no more than `MAX_PATHS` attempts per input position.

What it must never do: hand an unproven pattern to `re`. Patterns and inputs come
from users; `^(a+)+$` on 27 characters takes `re` 5.6 s and RE2 0.2 ms.

Interface: `search(pattern) -> (text -> bool)`, `problem(pattern) -> str | None`
(worded as Go's `regexp`), `find`, `find_all`. Meaning of `$`: end of text only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2

MAX_PATHS = 64
"""Backtracking attempts a pattern may need per start position to count as linear."""

MAX_CACHED_CHARS = 256
"""Longer texts are matched anew each time, so that the cache stays small."""

_GO_WORDS = (
    ("missing ]", "missing closing ]"),
    ("missing )", "missing closing )"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("trailing \\", "trailing backslash at end of expression"),
)


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


@lru_cache(maxsize=4096)
def _re2(pattern: str) -> Any:
    return re2.compile(pattern, _options())


@lru_cache(maxsize=1024)
def problem(pattern: str) -> str | None:
    """Return why the pattern is no regular expression, in Go's words, or None."""
    try:
        _re2(pattern)
    except re2.error as error:
        text = error.args[0] if error.args else ""
        text = text.decode() if isinstance(text, bytes) else str(text)
        for mine, go in _GO_WORDS:
            if text.startswith(mine):
                text = go + text[len(mine) :]
                break
        what, colon, where = text.partition(": ")
        if what == "missing closing )":
            where = pattern  # Go quotes the whole expression here
        return f"error parsing regexp: {what}: `{where}`" if colon else f"error parsing regexp: {what}: ``"
    return None


@lru_cache(maxsize=4096)
def search(pattern: str) -> Callable[[str], bool]:
    """Return a predicate telling whether the pattern matches somewhere in a text."""
    compiled = _re2(pattern)
    translated = linear(pattern)
    if translated is not None:
        found = re.compile(translated, re.ASCII).search
        return lambda text: found(text) is not None
    find_re2 = compiled.search

    @lru_cache(maxsize=1024)
    def remembered(text: str) -> bool:
        return find_re2(text) is not None

    return lambda text: remembered(text) if len(text) <= MAX_CACHED_CHARS else find_re2(text) is not None


def find(pattern: str, text: str) -> str:
    """Return the first match of the pattern, or the empty string."""
    match = _re2(pattern).search(text)
    return "" if match is None else str(match.group(0))


def find_all(pattern: str, text: str, limit: int = -1) -> list[str]:
    """Return all matches from left to right, at most `limit` when that is not negative."""
    matches: list[str] = []
    for match in _re2(pattern).finditer(text):
        if 0 <= limit <= len(matches):
            break
        matches.append(match.group(0))
    return matches


def linear(pattern: str) -> str | None:
    """Translate a pattern for `re` if its cost is provably small, else None.

    The proof: an unbounded repetition is allowed only in a pattern anchored at
    its start and only when what may follow it shares no character with it, so it
    never gives characters back; all other choices multiply to `MAX_PATHS` or less.
    """
    anchored = pattern.startswith("^")
    body = pattern.removeprefix("^")
    parser = _Subset(body)
    try:
        items = parser.sequence()
        if parser.at != len(body):
            return None
    except _NotSubsetError:
        return None
    if parser.paths > MAX_PATHS or (parser.unbounded and not anchored):
        return None
    if not _deterministic(items, parser.ends):
        return None
    return ("^" if anchored else "") + parser.text()


class _NotSubsetError(Exception):
    """The pattern uses something this module does not prove linear."""


_CLASS_ESCAPES = {
    "d": frozenset("0123456789"),
    "w": frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"),
    "s": frozenset("\t\n\f\r "),
}
_ASCII = frozenset(map(chr, range(128)))
_PLAIN = re.compile(r"[A-Za-z0-9_ /%:@,=~!\"'#&;<>-]")


class _Subset:
    """Parser of the provable subset; collects the text for `re` as it goes."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.out: list[str] = []
        self.paths = 1
        self.unbounded = False
        self.ends = False

    def text(self) -> str:
        return "".join(self.out)

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def sequence(self, depth: int = 0) -> list[tuple[frozenset[str], bool, bool]]:
        """Parse items up to `)`, `|` or the end: (characters, optional, unbounded) each."""
        items: list[tuple[frozenset[str], bool, bool]] = []
        while self.at < len(self.pattern):
            char = self.peek()
            if char == "$" and depth == 0 and self.at == len(self.pattern) - 1:
                self.at += 1
                self.out.append(r"\Z")
                self.ends = True
            elif char == "(" and depth == 0:
                items.append(self.group())
            elif char in ")|" and depth:
                break
            else:
                items.append(self.repeated(self.atom()))
        return items

    def group(self) -> tuple[frozenset[str], bool, bool]:
        """Parse one group of bounded alternatives; it may be optional but not repeated."""
        self.at += 3 if self.pattern.startswith("(?:", self.at) else 1
        self.out.append("(?:")
        first: frozenset[str] = frozenset()
        optional, branches = False, 0
        while True:
            was = self.unbounded
            self.unbounded = False
            items = self.sequence(1)
            if self.unbounded or self.at >= len(self.pattern):
                raise _NotSubsetError
            self.unbounded = was
            branches += 1
            leading = True
            for chars, may_skip, _ in items:
                if leading:
                    first |= chars
                leading = leading and may_skip
            optional = optional or leading
            self.at += 1
            if self.pattern[self.at - 1] == ")":
                break
            self.out.append("|")
        self.out.append(")")
        self.paths *= branches
        if self.peek() == "?":
            self.at += 1
            self.out.append("?")
            self.paths *= 2
            optional = True
        if self.peek() in ("*", "+", "{", "?") and self.peek():
            raise _NotSubsetError
        return first, optional, False

    def atom(self) -> frozenset[str]:
        char = self.peek()
        self.at += 1
        if _PLAIN.match(char):
            self.out.append(re.escape(char))
            return frozenset(char)
        if char == "[":
            return self.char_class()
        if char == "\\":
            return self.escape(self.out)
        raise _NotSubsetError

    def escape(self, out: list[str]) -> frozenset[str]:
        char = self.peek()
        self.at += 1
        if char in _CLASS_ESCAPES and char:
            # Python's \s also has \v; spell the set out.
            out.append("[\\t\\n\\f\\r ]" if char == "s" else "\\" + char)
            return _CLASS_ESCAPES[char]
        if char and not char.isalnum() and char in _ASCII:
            out.append("\\" + char)
            return frozenset(char)
        raise _NotSubsetError

    def char_class(self) -> frozenset[str]:
        end = self.pattern.find("]", self.at + 1)
        if end < 0:
            raise _NotSubsetError
        body = self.pattern[self.at : end]
        if not re.fullmatch(r"(?:\\[-./]|[A-Za-z0-9_ /%:@,=~!\"'#&;<>.*+?()$-])+", body):
            raise _NotSubsetError
        self.at = end + 1
        self.out.append(f"[{body}]")
        matcher = re.compile(f"[{body}]")
        return frozenset(char for char in _ASCII if matcher.match(char))

    def repeated(self, chars: frozenset[str]) -> tuple[frozenset[str], bool, bool]:
        match = re.compile(r"[*+?]|\{(\d+)(?:,(\d+))?\}").match(self.pattern, self.at)
        if match is None:
            if self.peek() == "{":
                raise _NotSubsetError
            return chars, False, False
        self.at = match.end()
        self.out.append(match.group())
        if self.peek() in ("?", "+", "*", "{") and self.peek():
            raise _NotSubsetError
        if match.group() in "*+":
            self.unbounded = True
            return chars, match.group() == "*", True
        low, high = (0, 1) if match.group() == "?" else (int(match[1]), int(match[2] or match[1]))
        self.paths *= high - low + 1
        return chars, low == 0, False


def _deterministic(items: list[tuple[frozenset[str], bool, bool]], ends: bool) -> bool:
    """Tell whether no unbounded item can give characters to what follows it."""
    for index, (chars, _, unbounded) in enumerate(items):
        if not unbounded:
            continue
        rest = items[index + 1 :]
        for following, optional, _ in rest:
            if following & chars:
                return False
            if not optional:
                break
        else:
            if rest and not ends:
                return False
    return True
