"""Says what is wrong with a JSON text the way Go's decoder says it. Slow, and only for texts that are wrong."""

from __future__ import annotations

END = "unexpected end of JSON input"
_SPACE = b" \t\r\n"
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
MAX_DEPTH = 10_000
MAX_SCANNED = 4 * 1024 * 1024


class _Bad(Exception):
    pass


def json_problem(text: bytes) -> str:
    """Return the first problem of a text that is not JSON."""
    scanner = _Scanner(text[:MAX_SCANNED])
    try:
        scanner.value(0)
        scanner.space()
        if scanner.at < len(scanner.text):
            scanner.fail("after top-level value")
    except _Bad as problem:
        return str(problem)
    except RecursionError:
        return "exceeded max depth"
    return END


class _Scanner:
    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0

    def fail(self, where: str) -> None:
        char = chr(self.text[self.at])
        shown = "'\\''" if char == "'" else f"'{char}'" if char.isprintable() and ord(char) < 127 else ""
        shown = shown or (f"'\\x{ord(char):02x}'" if ord(char) < 32 else f"'\\u{ord(char):04x}'")
        raise _Bad(f"invalid character {shown} {where}")

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1

    def peek(self) -> int:
        self.space()
        if self.at >= len(self.text):
            raise _Bad(END)
        return self.text[self.at]

    def value(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _Bad("exceeded max depth")
        first = self.peek()
        if first == ord("{"):
            self.members(depth)
        elif first == ord("["):
            self.items(depth)
        elif first == ord('"'):
            self.string()
        elif first in _LITERALS:
            self.literal(_LITERALS[first])
        elif chr(first) in "-0123456789":
            self.number()
        else:
            self.fail("looking for beginning of value")

    def literal(self, word: bytes) -> None:
        for index in range(1, len(word)):
            self.at += 1
            if self.at >= len(self.text):
                raise _Bad(END)
            if self.text[self.at] != word[index]:
                self.fail(f"in literal {word.decode()} (expecting '{chr(word[index])}')")
        self.at += 1

    def number(self) -> None:
        if self.text[self.at] == ord("-"):
            self.at += 1
            if self.at >= len(self.text):
                raise _Bad(END)
            if not chr(self.text[self.at]).isdigit():
                self.fail("in numeric literal")
        while self.at < len(self.text) and chr(self.text[self.at]) in "0123456789.eE+-":
            self.at += 1

    def string(self) -> None:
        self.at += 1
        while True:
            if self.at >= len(self.text):
                raise _Bad(END)
            char = self.text[self.at]
            if char == ord('"'):
                self.at += 1
                return
            if char < 0x20:
                self.fail("in string literal")
            if char == ord("\\"):
                self.at += 1
                if self.at < len(self.text) and chr(self.text[self.at]) not in 'bfnrt\\/"u':
                    self.fail("in string escape code")
            self.at += 1

    def members(self, depth: int) -> None:
        self.at += 1
        if self.peek() == ord("}"):
            self.at += 1
            return
        while True:
            if self.peek() != ord('"'):
                self.fail("looking for beginning of object key string")
            self.string()
            if self.peek() != ord(":"):
                self.fail("after object key")
            self.at += 1
            self.value(depth + 1)
            char = self.peek()
            self.at += 1
            if char == ord("}"):
                return
            if char != ord(","):
                self.at -= 1
                self.fail("after object key:value pair")

    def items(self, depth: int) -> None:
        self.at += 1
        if self.peek() == ord("]"):
            self.at += 1
            return
        while True:
            self.value(depth + 1)
            char = self.peek()
            self.at += 1
            if char == ord("]"):
                return
            if char != ord(","):
                self.at -= 1
                self.fail("after array element")
