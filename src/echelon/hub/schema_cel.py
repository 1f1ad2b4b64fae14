"""Runs the CEL rules of a schema (`x-kubernetes-validations`) against objects.

What it decides: which rules run (rules about `oldSelf` only where an old value
corresponds), what a broken rule says, and where an unchanged value is let be.

What it must never do: parse at request time; a schema's rules are compiled once,
at first use, and a schema without rules costs one attribute read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from echelon.hub.cel_compile import OVER_LIMIT, CelCompileError, Program, compile_cel
from echelon.hub.cel_parse import CelSyntaxError, Node, parse
from echelon.hub.cel_types import Type, converter, optional_of, type_of
from echelon.hub.cel_values import NO_OVERLOAD, NONE, CelError, Maybe
from echelon.hub.gotext import bad_value, quote
from echelon.hub.schema_node import JSON, MISSING, Rule, Schema
from echelon.hub.schema_validate import NO_FIELD, Cause, old_item_finder, same

MAX_TOTAL_WORK = 2_000_000
"""Steps all rules of one object may take together: about two seconds, because one loop serves everybody."""
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"

Path = tuple[Any, str] | None
"""Where a value is: the path above and the last step as it is printed (`.spec`, `[0]`)."""


class CompiledRule(NamedTuple):
    """One rule, ready to run."""

    rule: Rule
    program: Program
    message: Program | None
    uses_old: bool
    field_path: str


class Rules:
    """The rules of one schema node and of those below it."""

    __slots__ = ("additional", "convert", "here", "items", "properties", "schema", "speaks_of_old")

    def __init__(self, schema: Schema, here: tuple[CompiledRule, ...]) -> None:
        self.schema = schema
        self.here = here
        self.convert: Callable[[Any], Any] | None = converter(schema) if here else None
        self.properties: list[tuple[str, str, Rules]] = []
        self.items: Rules | None = None
        self.additional: Rules | None = None
        self.speaks_of_old = any(rule.uses_old for rule in here)
        """Whether a rule here or below compares with the old value."""


def uses_old(text: str) -> bool:
    """Tell whether an expression speaks of the old value."""
    if "oldSelf" not in text:
        return False
    try:
        return _mentions(parse(text))
    except (CelSyntaxError, RecursionError):
        return False


def _mentions(node: Node) -> bool:
    return (node.kind == "name" and node.value == "oldSelf") or any(map(_mentions, node.items))


def variables(declared: Type, rule: Rule) -> dict[str, Type]:
    """Return what a rule may name."""
    return {"self": declared, "oldSelf": optional_of(declared) if rule.optional_old_self else declared}


def compile_rule(rule: Rule, declared: Type) -> CompiledRule:
    """Compile a rule; raises CelCompileError."""
    names = variables(declared, rule)
    message = compile_cel(rule.message_expression, names) if rule.message_expression.strip() else None
    return CompiledRule(rule, compile_cel(rule.rule, names), message, uses_old(rule.rule), rule.field_path)


def rules_of(schema: Schema) -> Rules | None:
    """Return the compiled rules at and below the root schema of a resource, or None if there are none."""
    if schema.programs is None:
        schema.programs = _compiled(schema, root=True, above=()) or False
    return schema.programs or None


def _compiled(schema: Schema, *, root: bool, above: tuple[int, ...]) -> Rules | None:
    if id(schema) in above:
        return None  # only built-in definitions recurse, and they have no rules
    above += (id(schema),)
    here: list[CompiledRule] = []
    declared = type_of(schema, root=root) if schema.rules else None
    if declared is not None:
        for rule in schema.rules:
            try:
                here.append(compile_rule(rule, declared))
            except CelCompileError:
                continue  # refused when the definition was written; a stored one must not block every write
    node = Rules(schema, tuple(here))
    for name, child in schema.properties.items():
        below = _compiled(child, root=False, above=above)
        if below is not None:
            node.properties.append((name, f".{name}", below))
    if schema.items is not None:
        node.items = _compiled(schema.items, root=False, above=above)
    if isinstance(schema.additional, Schema):
        node.additional = _compiled(schema.additional, root=False, above=above)
    below_here = [*(each for _, _, each in node.properties), node.items, node.additional]
    if not here and not any(below_here):
        return None
    node.speaks_of_old = node.speaks_of_old or any(
        each.speaks_of_old for each in below_here if each is not None
    )
    return node


def check(schema: Schema, value: JSON, old: JSON = MISSING) -> list[Cause]:
    """Return the causes of all broken rules of a resource."""
    rules = rules_of(schema)
    if rules is None:
        return []
    run = _Run()
    run.walk(rules, value, old, None, None)
    return run.causes


class _Run:
    """The evaluation of one object."""

    __slots__ = ("causes", "work")

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self.work = MAX_TOTAL_WORK

    def walk(self, rules: Rules, value: JSON, old: JSON, path: Path, above: _Unchanged | None) -> None:
        """Check a value and what is below it; `above` is the nearest value around it that has an old one."""
        if value is old and not rules.speaks_of_old:
            return  # the very same value: only rules about a change could have anything to say
        if old is not MISSING:
            above = _Unchanged(rules.schema, value, old)
        if rules.here:
            self.check_here(rules, value, old, path, above)
        if value.__class__ is dict:
            olds = old if old.__class__ is dict else None
            for name, step, below in rules.properties:
                if name in value:
                    was = olds.get(name, MISSING) if olds is not None else MISSING
                    self.walk(below, value[name], was, (path, step), above)
            if rules.additional is not None:
                known = rules.schema.properties
                for name, item in value.items():
                    if name not in known:
                        was = olds.get(name, MISSING) if olds is not None else MISSING
                        self.walk(rules.additional, item, was, (path, f"[{name}]"), above)
        elif value.__class__ is list and rules.items is not None:
            find = old_item_finder(rules.schema, old)
            for index, item in enumerate(value):
                self.walk(rules.items, item, find(item), (path, f"[{index}]"), above)

    def check_here(self, rules: Rules, value: JSON, old: JSON, path: Path, above: _Unchanged | None) -> None:
        """Check the rules of one value."""
        me: Any = None
        was: Any = None
        ready = False
        if value is None:
            return  # rules are about values; null is the absence of one
        for compiled in rules.here:
            optional = bool(compiled.rule.optional_old_self)
            if compiled.uses_old and old is MISSING and not optional:
                continue
            if self.work < 0:
                return
            if not ready:
                me, was = _convert(rules.convert, value), _convert(rules.convert, old)
                ready = True
            if was is _UNREADABLE and compiled.uses_old:
                continue  # what was stored before its type was declared cannot be compared with
            before = was
            if optional:
                before = NONE if old is MISSING else Maybe(was)
            cause = self.outcome(compiled, (me, before), rules.schema, value, path)
            if cause is None or (not compiled.uses_old and above is not None and above.holds()):
                continue
            self.causes.append(cause)

    def outcome(
        self, compiled: CompiledRule, values: tuple[Any, Any], schema: Schema, value: JSON, path: Path
    ) -> Cause | None:
        """Run one rule; return what it has against the value."""
        rule = compiled.rule
        try:
            answer, work = compiled.program.spend(values)
        except CelError as error:
            return Cause(
                "FieldValueInvalid",
                f"Invalid value: {quote(schema.type or '')}: {_failure(str(error), rule)}",
                field_text(path),
            )
        self.work -= work + 1
        if self.work < 0:
            return Cause(
                "FieldValueInvalid",
                f"Invalid value: {quote(schema.type or '')}: {OUT_OF_BUDGET}",
                field_text(path),
            )
        if answer is True:
            return None
        detail = _detail(compiled, values)
        return _worded(
            rule.reason or "FieldValueInvalid", value, detail, field_text(path, compiled.field_path)
        )


class _Unchanged:
    """Whether a value is what it was; worked out at most once, and only when a rule is broken."""

    __slots__ = ("answer", "old", "schema", "value")

    def __init__(self, schema: Schema, value: JSON, old: JSON) -> None:
        self.schema, self.value, self.old = schema, value, old
        self.answer: bool | None = None

    def holds(self) -> bool:
        if self.answer is None:
            self.answer = same(self.schema, self.value, self.old)
        return self.answer


_UNREADABLE: Any = object()
"""Stands for a value that does not have the type its schema declares; every use of it fails."""


def _convert(convert: Callable[[Any], Any] | None, value: JSON) -> Any:
    if convert is None or value is None or value is MISSING:
        return None if value is MISSING else value
    try:
        return convert(value)
    except (CelError, TypeError, ValueError, AttributeError):
        return _UNREADABLE


def field_text(path: Path, more: str = "") -> str:
    """Print a field path."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = ("".join(reversed(steps)) + more).removeprefix(".")
    return text or NO_FIELD


def _failure(error: str, rule: Rule) -> str:
    name = rule.message.strip() or rule.rule.strip()
    if error.startswith(NO_OVERLOAD):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro signature "
            f"for rule: {name}"
        )
    if error.startswith(OVER_LIMIT):
        return f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
    return f"{error} evaluating rule: {name}"


def _detail(compiled: CompiledRule, values: tuple[Any, Any]) -> str:
    rule = compiled.rule
    if compiled.message is not None:
        try:
            text = compiled.message.run(*values)
        except CelError:
            text = ""
        if text.__class__ is str and text.strip() and "\n" not in text.strip() and len(text) <= MAX_MESSAGE:
            return str(text.strip())
    return rule.message.strip() or f"failed rule: {rule.rule.strip()}"


MAX_MESSAGE = 5 * 1024
"""Characters that a messageExpression may return."""


def _worded(reason: str, value: JSON, detail: str, field: str) -> Cause:
    shown = "" if value.__class__ in (dict, list) else f"{bad_value(value)}: "
    if reason == "FieldValueForbidden":
        return Cause(reason, f"Forbidden: {detail}", field)
    if reason == "FieldValueRequired":
        return Cause(reason, f"Required value: {detail}", field)
    if reason == "FieldValueDuplicate":
        return Cause(reason, f"Duplicate value: {shown}".rstrip(": "), field)
    return Cause(reason, f"Invalid value: {shown}{detail}", field)
