"""Parser of CEL, from text to a small syntax tree.

What it decides: the shape of an expression, and the words of syntax errors.

What it must never do: know functions or variables, or recurse without bound: the
depth of an expression is limited by `MAX_DEPTH`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from echelon.hub.cel_tokens import CelSyntaxError, Token, literal, tokens

MAX_DEPTH = 50
"""Nesting of an expression; each level costs a few Python frames."""
MAX_CHARS = 100_000
"""Length of an expression, as in cel-go."""


class Node(NamedTuple):
    """One node: `kind` says what the other fields hold.

    literal: value. name: value. select: items=(operand,), value=(field, optional).
    call: value=function, items=arguments. method: items=(target, *arguments).
    list: items, value=positions of optional ones. map: items=k, v, k, v..., value=positions of optional entries.
    struct: value=(type name, fields), items=their values.
    """

    kind: str
    at: int
    value: Any
    items: tuple[Node, ...] = ()


class Field(NamedTuple):
    """One field of a struct literal; `at` is its colon."""

    name: str
    at: int
    optional: bool


RESERVED = frozenset(
    (
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    )
)
_EXPECTED = "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"


def parse(source: str) -> Node:
    """Parse an expression."""
    if len(source) > MAX_CHARS:
        raise CelSyntaxError(
            0, f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_CHARS}"
        )
    parser = _Parser(tokens(source))
    node = parser.expression()
    if parser.token.kind != "end":
        parser.mismatch("<EOF>")
    return node


_RELATIONS = frozenset(("==", "!=", "<", "<=", ">", ">="))


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.index = 0
        self.token = found[0]
        self.depth = 0

    def advance(self) -> Token:
        token = self.token
        self.index += 1
        if token.kind != "end":
            self.token = self.tokens[self.index]
        return token

    def accept(self, text: str) -> Token | None:
        if self.token.text == text and self.token.kind in ("op", "name"):
            return self.advance()
        return None

    def expect(self, text: str) -> Token:
        token = self.accept(text)
        if token is None:
            raise self.mismatch(f"'{text}'")
        return token

    def mismatch(self, expected: str) -> Any:
        token = self.token
        shown = token.text if token.kind != "end" else "<EOF>"
        words = "extraneous" if expected == "<EOF>" else "mismatched"
        raise CelSyntaxError(token.at, f"Syntax error: {words} input '{shown}' expecting {expected}")

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise CelSyntaxError(self.token.at, f"expression recursion limit exceeded: {MAX_DEPTH}")
        node = self.either()
        question = self.accept("?")
        if question is not None:
            yes = self.either()
            self.expect(":")
            node = Node("call", question.at, "_?_:_", (node, yes, self.expression()))
        self.depth -= 1
        return node

    def either(self) -> Node:
        return self.chain("||", self.both)

    def both(self) -> Node:
        return self.chain("&&", self.relation)

    def chain(self, operator: str, operand: Any) -> Node:
        """Parse a chain of || or &&; kept flat, so that long ones do not nest deeply."""
        operands = [operand()]
        at = 0
        while True:
            token = self.accept(operator)
            if token is None:
                break
            at = at or token.at
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Node("call", at, f"_{operator}_", tuple(operands))

    def relation(self) -> Node:
        node = self.sum()
        while True:
            token = self.token
            if token.kind == "op" and token.text in _RELATIONS:
                self.advance()
                node = Node("call", token.at, f"_{token.text}_", (node, self.sum()))
            elif token.kind == "name" and token.text == "in":
                self.advance()
                node = Node("call", token.at, "@in", (node, self.sum()))
            else:
                return node

    def sum(self) -> Node:
        node = self.product()
        while self.token.kind == "op" and self.token.text in ("+", "-"):
            token = self.advance()
            node = Node("call", token.at, f"_{token.text}_", (node, self.product()))
        return node

    def product(self) -> Node:
        node = self.unary()
        while self.token.kind == "op" and self.token.text in ("*", "/", "%"):
            token = self.advance()
            node = Node("call", token.at, f"_{token.text}_", (node, self.unary()))
        return node

    def unary(self) -> Node:
        if self.token.kind == "op" and self.token.text in ("!", "-"):
            first = self.token
            count = 0
            while self.token.kind == "op" and self.token.text == first.text:
                self.advance()
                count += 1
            if first.text == "-" and self.token.kind in ("int", "float"):
                node = self.member(negative=True)
                count -= 1
            else:
                node = self.member()
            return Node("call", first.at, "!_" if first.text == "!" else "-_", (node,)) if count % 2 else node
        return self.member()

    def member(self, *, negative: bool = False) -> Node:
        node = self.primary(negative=negative)
        while self.token.kind == "op":
            if self.token.text == ".":
                node = self.select(node)
            elif self.token.text == "[":
                at = self.advance().at
                optional = self.accept("?") is not None
                index = self.expression()
                self.expect("]")
                node = Node("call", at, "_[?_]" if optional else "_[_]", (node, index))
            elif self.token.text == "{" and dotted(node) is not None:
                node = self.struct_literal(node)
            else:
                break
        return node

    def select(self, node: Node) -> Node:
        at = self.advance().at
        optional = self.accept("?") is not None
        token = self.advance()
        if token.kind == "escaped":
            return Node("select", at, (token.text[1:-1], optional), (node,))
        if token.kind != "name":
            self.index -= 1
            self.token = token
            return self.mismatch("IDENTIFIER")  # type: ignore[no-any-return]
        if self.token.text == "(" and self.token.kind == "op" and not optional:
            at = self.advance().at
            return Node("method", at, token.text, (node, *self.arguments(")")))
        return Node("select", at, (token.text, optional), (node,))

    def arguments(self, end: str) -> list[Node]:
        items: list[Node] = []
        while not self.accept(end):
            items.append(self.expression())
            if not self.accept(","):
                self.expect(end)
                break
        return items

    def primary(self, *, negative: bool = False) -> Node:
        token = self.advance()
        if token.kind in _LITERALS:
            return Node("literal", token.at, literal(token, negative=negative))
        if token.kind == "name":
            return self.named(token)
        if token.kind == "op":
            if token.text == "(":
                node = self.expression()
                self.expect(")")
                return node
            if token.text == "[":
                return self.list_literal(token)
            if token.text == "{":
                return self.map_literal(token)
            if token.text == "." and self.token.kind == "name":
                return self.named(self.advance())
        self.index -= 1
        self.token = token
        return self.mismatch(f"{{{_EXPECTED}}}")  # type: ignore[no-any-return]

    def named(self, token: Token) -> Node:
        if token.text in _CONSTANTS:
            return Node("literal", token.at, _CONSTANTS[token.text])
        if token.text in RESERVED:
            raise CelSyntaxError(token.at, f"reserved identifier: {token.text}")
        if self.token.text == "(" and self.token.kind == "op":
            at = self.advance().at
            return Node("call", at, token.text, tuple(self.arguments(")")))
        return Node("name", token.at, token.text)

    def list_literal(self, token: Token) -> Node:
        items: list[Node] = []
        optional: set[int] = set()
        while not self.accept("]"):
            if self.accept("?"):
                optional.add(len(items))
            items.append(self.expression())
            if not self.accept(","):
                self.expect("]")
                break
        return Node("list", token.at, frozenset(optional), tuple(items))

    def struct_literal(self, named: Node) -> Node:
        at = self.advance().at
        fields: list[Field] = []
        items: list[Node] = []
        expected = "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"
        while not self.accept("}"):
            optional = self.accept("?") is not None
            if self.token.kind not in ("name", "escaped"):
                self.mismatch(expected)
            name = self.advance()
            fields.append(Field(name.text.strip("`"), self.token.at, optional))
            self.expect(":")
            items.append(self.expression())
            if not self.accept(","):
                if not self.accept("}"):
                    self.mismatch("{'}', ','}")
                break
            expected = "{'}', '?', IDENTIFIER, ESC_IDENTIFIER}"
        return Node("struct", at, (dotted(named), tuple(fields)), tuple(items))

    def map_literal(self, token: Token) -> Node:
        items: list[Node] = []
        optional: set[int] = set()
        while not self.accept("}"):
            if self.accept("?"):
                optional.add(len(items) // 2)
            items.append(self.expression())
            self.expect(":")
            items.append(self.expression())
            if not self.accept(","):
                self.expect("}")
                break
        return Node("map", token.at, frozenset(optional), tuple(items))


def dotted(node: Node) -> str | None:
    """Return the qualified name that a chain of selections spells, if it is one."""
    if node.kind == "name":
        return str(node.value)
    if node.kind == "select" and not node.value[1]:
        base = dotted(node.items[0])
        return f"{base}.{node.value[0]}" if base is not None else None
    return None


_LITERALS = frozenset(("int", "uint", "float", "string"))
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}

__all__ = ["CelSyntaxError", "Field", "Node", "dotted", "parse"]
