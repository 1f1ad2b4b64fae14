"""CEL: compile errors in the server's words, libraries by example, and generated expressions against cel-cpp."""

import pytest
from cel_expr_python import cel
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.hub.cel_compile import CelCompileError, compile_cel
from echelon.hub.cel_types import DYN, INT, STRING, list_of, map_of
from echelon.hub.cel_values import CelError

VARIABLES = {"i": INT, "s": STRING, "l": list_of(INT), "m": map_of(STRING, INT), "d": DYN}
VALUES = {"i": 3, "s": "abc", "l": [1, 2, 3], "m": {"a": 1, "b": 2}, "d": {"x": [1, "y", None]}}


def run(source):
    return compile_cel(source, VARIABLES).run(*VALUES.values())


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("l.sum() == 6 && l.max() == 3 && l.isSorted()", True),
        ("l.indexOf(2) == 1 && l.map(x, x * 2).exists(x, x == 6)", True),
        ("m.all(k, v, k in ['a', 'b'] && v < 3)", True),
        ("m.transformMap(k, v, v + 1)", {"a": 2, "b": 3}),
        ("l.transformList(i, v, i * v)", [0, 2, 6]),
        ("quantity('1Gi').isGreaterThan(quantity('1G'))", True),
        ("quantity('500m').add(quantity('1500m')).asInteger()", 2),
        ("isQuantity('1.3x')", False),
        ("ip('10.1.2.3').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3')", True),
        ("cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16')) && !isIP('10.0.0.256')", True),
        ("url('https://u@h.io:80/p?x=1&x=2').getHostname()", "h.io"),
        ("url('https://h.io/p?x=1&x=2').getQuery()['x'].size()", 2),
        ("isURL('not a url')", False),
        ("'%s is %d, %.2f, %x'.format(['a', 5, 1.5, 255])", "a is 5, 1.50, ff"),
        ("format.dns1123Label().validate('A').hasValue()", True),
        ("!format.named('nope').hasValue()", True),
        ("semver('1.2.3').isLessThan(semver('1.10.0'))", True),
        ("duration('90m').getHours()", 1),
        ("timestamp('2024-02-29T12:30:00Z').getDayOfYear()", 59),
        ("timestamp('2024-01-01T00:30:00Z').getHours('-01:00')", 23),
        ("'a,b'.split(',').join('-').upperAscii()", "A-B"),
        ("'ab1cd22'.findAll('[0-9]+')", ["1", "22"]),
        ("d.?x[0].orValue(7)", 1),
        ("d.?nope.orValue(7)", 7),
        ("optional.of(1).optMap(v, v + 1).value()", 2),
        ("[1, 2, 2].distinct() == [1, 2] && [3, 1].sort() == [1, 3] && lists.range(2) == [0, 1]", True),
        ("sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])", True),
        ("i == 3 || 1 / 0 > 0", True),
        ("1 / 0 > 0 || i == 3", True),
        ("l.exists(x, 6 / (x - 1) == 6)", True),
        ("dyn(1) == 1.0 && 1 < 1.5", True),
        ("type(i) == int && type(s) == string", True),
    ],
)
def test_libraries_by_example(source, value):
    assert run(source) == value


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("1 / (i - 3)", "division by zero"),
        ("9223372036854775807 + i", "integer overflow"),
        ("l[5]", "index out of bounds: 5"),
        ("m['z']", "no such key: z"),
        ("d.x > 1", "no such overload"),
        ("l.map(x, l.map(y, l.map(z, x))).size() + [0].map(q, lists.range(900000).size())[0]", None),
    ],
)
def test_errors_of_evaluation(source, error):
    if error is None:
        run(source)
        return
    with pytest.raises(CelError, match=error):
        run(source)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("foo", "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^"),
        (
            "1+'a' == 2",
            (
                "ERROR: <input>:1:2: found no matching overload for '_+_' applied to '(int, string)'\n"
                " | 1+'a' == 2\n | .^"
            ),
        ),
        ("[1,'a']", "ERROR: <input>:1:4: expected type 'int' but found 'string'\n | [1,'a']\n | ...^"),
        (
            "s && true",
            "ERROR: <input>:1:1: expected type 'bool' but found 'string'\n | s && true\n | ^",
        ),
        (
            "s.all(x, true)",
            (
                "ERROR: <input>:1:1: expression of type 'string' cannot be range of a comprehension (must be list, "
                "map, or dynamic)\n | s.all(x, true)\n | ^"
            ),
        ),
        ("has(s)", "ERROR: <input>:1:5: invalid argument to has() macro\n | has(s)\n | ....^"),
        (
            "s.matches('[')",
            "ERROR: <input>:1:11: invalid matches argument\n | s.matches('[')\n | ..........^",
        ),
        (
            "s.reverse()",
            (
                "ERROR: <input>:1:10: found no matching overload for 'reverse' applied to 'string.()'\n"
                " | s.reverse()\n | .........^"
            ),
        ),
        (
            "1 ==",
            (
                "ERROR: <input>:1:5: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', "
                "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | 1 ==\n | ....^"
            ),
        ),
    ],
)
def test_compile_errors_say_what_kube_apiserver_says(source, error):
    with pytest.raises(CelCompileError) as caught:
        compile_cel(source, VARIABLES)
    assert str(caught.value) == error


def test_an_expression_that_nests_too_deeply_is_refused_at_once():
    with pytest.raises(CelCompileError, match="recursion limit"):
        compile_cel("(" * 200 + "1" + ")" * 200, {})
    with pytest.raises(CelCompileError, match="recursion limit"):
        compile_cel("d" + ".a" * 20_000, VARIABLES)
    with pytest.raises(CelCompileError, match="recursion limit"):
        compile_cel("1" + " + 1" * 20_000, VARIABLES)


def test_a_loop_that_takes_too_long_is_cut():
    with pytest.raises(CelError, match="cost limit exceeded"):
        run("lists.range(2000).all(a, lists.range(2000).all(b, a + b >= 0))")


@pytest.mark.parametrize(
    "source",
    [
        "lists.range(100000).all(x, lists.range(100000) == lists.range(100000))",
        "lists.range(100000).all(x, s + string(x) + s.replace('', s) != '')",
        "[lists.range(900000), lists.range(900000), lists.range(900000)].map(r, r + r + r + r).size() > 9",
        "lists.range(90000).all(x, '%s'.format([lists.range(90000)]).size() > 0)",
        "lists.range(9999).all(x, lists.range(9999).indexOf(x) >= 0 && x in lists.range(9999))",
        "lists.range(1000).map(x, 'abcdefghij').join('').replace('a', lists.range(1000).map(x, 'y').join('y' + s)).replace('y', lists.range(10000).map(x, 'zzzzzzzz').join(s)).size() > 0",
    ],
)
def test_no_function_is_a_way_around_the_limit(source):
    with pytest.raises(CelError, match="cost limit exceeded"):
        run(source)


def test_what_many_items_have_in_common_is_found_without_comparing_each_with_each():
    assert run("lists.range(100000).distinct().size() == 100000")
    assert run("sets.equivalent(lists.range(100000), lists.range(100000).reverse())")
    assert run("[dyn(1), dyn(1.0), dyn(true), dyn('1')].distinct().size() == 3")


# Generated expressions: the same value, or an error from both.

NUMBERS = st.one_of(
    st.integers(-3, 7).map(str),
    st.sampled_from(["i", "size(l)", "m['a']", "l[0]", "9223372036854775807", "int(s.size())"]),
)
TEXTS = st.sampled_from(["s", "'b'", "''", "'abc'", "s + 'x'", "string(i)"])
LISTS = st.sampled_from(["l", "[]", "[1, 2]", "l + [4]", "l.filter(x, x > 1)", "l.map(x, x * 2)"])


def both_sides(parts, operators):
    return st.tuples(parts, st.sampled_from(operators), parts).map(lambda p: f"({p[0]} {p[1]} {p[2]})")


SUMS = st.one_of(NUMBERS, both_sides(NUMBERS, ["+", "-", "*", "/", "%"]))
TESTS = st.one_of(
    both_sides(SUMS, ["==", "!=", "<", "<=", ">", ">="]),
    both_sides(TEXTS, ["==", "!=", "<", ">="]),
    st.tuples(TEXTS, st.sampled_from(["contains", "startsWith", "endsWith", "matches"]), TEXTS).map(
        lambda p: f"({p[0]}).{p[1]}({p[2]})"
    ),
    st.tuples(NUMBERS, LISTS).map(lambda p: f"({p[0]} in {p[1]})"),
    both_sides(LISTS, ["==", "!="]),
    st.tuples(LISTS, st.sampled_from(["all", "exists", "exists_one"]), NUMBERS).map(
        lambda p: f"({p[0]}).{p[1]}(e, 6 / (e - 2) > {p[2]})"
    ),
    st.sampled_from(
        ["has(d.x)", "has(d.y)", "d.x[1] == 'y'", "d.x[0] == 1", "('a' in m)", "(m == {'a': 1, 'b': 2})"]
    ),
)
EXPRESSIONS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        both_sides(inner, ["&&", "||"]),
        inner.map(lambda part: f"!({part})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} ? {p[1]} : {p[2]})"),
    ),
    max_leaves=5,
)
OTHER = cel.NewEnv(
    variables={
        "i": cel.Type.INT,
        "s": cel.Type.STRING,
        "l": cel.Type.List(cel.Type.INT),
        "m": cel.Type.Map(cel.Type.STRING, cel.Type.INT),
        "d": cel.Type.DYN,
    }
)


def outcome_here(source):
    try:
        return run(source)
    except (CelError, CelCompileError):
        return "error"


def outcome_there(source):
    try:
        value = OTHER.compile(source).eval(data=VALUES)
    except Exception:  # noqa: BLE001 - whatever the other raises is an error to it
        return "error"
    plain = value.plain_value() if hasattr(value, "plain_value") else value.value()
    return plain if isinstance(plain, bool) else "error"


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_generated_expressions_mean_what_an_independent_implementation_says(source):
    assert outcome_here(source) == outcome_there(source), source
