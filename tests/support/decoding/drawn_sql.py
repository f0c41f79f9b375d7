"""Expressions of SQL drawn at random, each as a user writes it and as DuckDB is asked for the same.

What differs on purpose between the two, as documented in docs/sql.md, stands in the rules of this file alone:

- whole numbers are BIGINT, numbers with a point DOUBLE (DuckDB's are INTEGER and DECIMAL),
- what raises an error in DuckDB is NULL: every operation of whole numbers is TRY(…),
- NaN is NULL, and so is x / 0: nullif(…, 'nan') and nullif(…, 0),
- // of doubles has nothing behind its point, floor and ceil of a whole number are whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

Kind = Literal["int", "float", "text", "bool"]
LEAST, MOST = -(2**63), 2**63 - 1
INTS = (0, 1, -1, 2, 3, -7, 10, 2**31, 2**53 + 1, 3037000500, -3037000500, MOST, MOST - 1, LEAST, LEAST + 1)
FLOATS = (
    0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 2.675, 1e17, 1e307, -1.7e308, 5e-324, 2.0**53, 2.0**63, -(2.0**63),
    0.49999999999999994, float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = ("", "a", "B", "aB%", "a_b", "\\", "'", '"', "é", "😀", "ß", "-- x", "/* x", "a\nb", "a b", "ŉ", "10")
PATTERNS = ("", "%", "_", "a%", "%b", "%\\%", "a\\_", "__", "%😀%", "a.b", "[a-z]", "A%", "a\n_")
SPACES = (" ", " ", " ", " ", "\n", " /* a ' ( */ ", " -- b ' )\n", "\t")
_SQL = {"int": "BIGINT", "float": "DOUBLE", "text": "TEXT", "bool": "BOOLEAN"}


@dataclass(frozen=True)
class Drawn:
    """An expression: in our words, in DuckDB's, and its type."""

    ours: str
    theirs: str
    kind: Kind

    @property
    def double(self) -> str:
        """As a double, for DuckDB."""
        return self.theirs if self.kind == "float" else f"CAST({self.theirs} AS DOUBLE)"


def alike(kind: Kind, form: str, *parts: Drawn) -> Drawn:
    """What both write in the same form, in which `{}` stands for each part."""
    return Drawn(form.format(*(part.ours for part in parts)), form.format(*(part.theirs for part in parts)), kind)


Leaves = Mapping[Kind, Sequence[Drawn]]


def leaves(**names: Kind) -> Leaves:
    """Columns as they are."""
    leaves_by_kind: dict[Kind, list[Drawn]] = {"int": [], "float": [], "text": [], "bool": []}
    for name, kind in names.items():
        leaves_by_kind[kind].append(Drawn(name, name, kind))
    return leaves_by_kind


def quoted(text: str) -> str:
    """A text as a literal."""
    return "'" + text.replace("'", "''") + "'"


class Drawer:
    """Draws expressions over some leaves, nested up to so many levels."""

    def __init__(self, draw: st.DrawFn, over: Leaves) -> None:
        self._draw = draw
        self._over = over

    def one(self, kind: Kind, depth: int) -> Drawn:
        """An expression of a type."""
        if depth <= 0 or self._among(range(5)) == 0:
            return self._leaf(kind)
        rule = self._among((*_RULES[kind], Drawer._case, Drawer._coalesce))
        return rule(self, kind, depth - 1)

    def number(self, depth: int) -> Drawn:
        """A number of either type."""
        return self.one(self._among(("int", "float")), depth)

    def any(self, depth: int) -> Drawn:
        """An expression of any type."""
        return self.one(self._among(("int", "float", "text", "bool")), depth)

    def _among(self, some: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(list(some)))

    def _sep(self) -> str:
        return self._among(SPACES)

    def _leaf(self, kind: Kind) -> Drawn:
        if self._over[kind] and self._among(range(3)):
            return self._among(self._over[kind])
        if self._among(range(5)) == 0:
            bare = self._among(("NULL", f"CAST(NULL AS {_SQL[kind]})")) if kind != "bool" else "NULL"
            return Drawn(bare, f"NULL::{_SQL[kind]}", kind)
        if kind == "int":
            integer = self._among(INTS)
            return Drawn(str(integer), f"({integer})::BIGINT", kind)
        if kind == "float":
            number = self._among(FLOATS[:-2])
            return Drawn(repr(number), f"CAST('{number!r}' AS DOUBLE)", kind)
        if kind == "text":
            text = quoted(self._among(TEXTS))
            return Drawn(text, text, kind)
        truth = self._among(("TRUE", "FALSE", "true"))
        return Drawn(truth, truth, kind)

    def _case(self, kind: Kind, depth: int) -> Drawn:
        sep, some = self._sep(), [self.one(kind, depth), self.one(kind, depth)]
        end = f"THEN {{}}{sep}ELSE {{}}{sep}END"
        if self._among((False, True)):
            return alike(kind, f"CASE WHEN{sep}{{}} {end}", self.one("bool", depth), *some)
        return alike(kind, f"CASE {{}} WHEN {{}} {end}", *self._pair(depth), *some)

    def _coalesce(self, kind: Kind, depth: int) -> Drawn:
        some = [self.one(kind, depth) for _ in range(1 + self._among(range(3)))]
        name = "coalesce" if len(some) != 2 else self._among(("coalesce", "ifnull"))
        return alike(kind, f"{name}({_slots(len(some))})", *some)

    def _integer(self, kind: Kind, depth: int) -> Drawn:
        sign, sep = self._among("+-*%") if self._among(range(4)) else "//", self._sep()
        one, other = self.one("int", depth), self.one("int", depth)
        return Drawn(f"({one.ours}{sep}{sign}{sep}{other.ours})", f"TRY(({one.theirs}) {sign} ({other.theirs}))", kind)

    def _whole_of_one(self, kind: Kind, depth: int) -> Drawn:
        one = self.one("int", depth)
        ours, theirs = self._among((
            ("abs({})", "TRY(abs({}))"), ("-({})", "TRY(0::BIGINT - ({}))"), ("round({})", "{}"),
            ("round({}, 2)", "{}"), ("floor({})", "{}"), ("ceil({})", "{}"), ("CAST({} AS INT)", "{}"),
            ("({})::BIGINT", "{}"),
        ))  # fmt: skip
        return Drawn(ours.format(one.ours), theirs.format(one.theirs), kind)

    def _whole_of_other(self, kind: Kind, depth: int) -> Drawn:
        if self._among((False, True)):
            return alike(kind, "length({})", self.one("text", depth))
        number = self.one("float", depth)
        return Drawn(f"CAST({number.ours} AS BIGINT)", f"TRY_CAST({number.theirs} AS BIGINT)", kind)

    def _double(self, kind: Kind, depth: int) -> Drawn:
        sign, sep = self._among(("+", "-", "*", "%", "//")), self._sep()
        one, other = self.one("float", depth), self.number(depth)
        if self._among((False, True)):
            one, other = other, one
        worked_out = f"({one.double}) {sign} ({other.double})"
        if sign == "//":
            worked_out = f"trunc(({one.double}) / nullif({other.double}, 0))"
        return Drawn(f"({one.ours}{sep}{sign}{sep}{other.ours})", f"nullif({worked_out}, 'nan'::DOUBLE)", kind)

    def _quotient(self, kind: Kind, depth: int) -> Drawn:
        one, other, sep = self.number(depth), self.number(depth), self._sep()
        theirs = f"nullif(({one.double}) / nullif({other.double}, 0), 'nan'::DOUBLE)"
        return Drawn(f"({one.ours}{sep}/{sep}{other.ours})", theirs, kind)

    def _double_of_one(self, kind: Kind, depth: int) -> Drawn:
        forms = ("abs({})", "-({})", "round({})", "round({}, 2)", "round({}, 18)", "floor({})", "ceil({})", "({})")
        return alike(kind, self._among(forms), self.one("float", depth))

    def _double_of_whole(self, kind: Kind, depth: int) -> Drawn:
        one = self.one("int", depth)
        return Drawn(f"CAST({one.ours} AS DOUBLE)", one.double, kind)

    def _text(self, kind: Kind, depth: int) -> Drawn:
        form = self._among((f"({{}}{self._sep()}|| {{}})", "lower({})", "upper({})", "LOWER({})", "CAST({} AS TEXT)"))
        if form.startswith("CAST"):
            return alike(kind, form, self.one("int", depth))
        return alike(kind, form, self.one("text", depth), self.one("text", depth))

    def _pair(self, depth: int) -> tuple[Drawn, Drawn]:
        """Two that can be compared."""
        kind: Kind = self._among(("int", "float", "text", "bool"))
        if kind in ("int", "float"):
            return self.number(depth), self.number(depth)
        return self.one(kind, depth), self.one(kind, depth)

    def _compared(self, kind: Kind, depth: int) -> Drawn:
        one, other = self._pair(depth)
        sign = self._among(("=", "<>", "!=", "<", "<=", ">", ">="))
        return alike(kind, f"({{}}{self._sep()}{sign} {{}})", one, other)

    def _listed(self, kind: Kind, depth: int) -> Drawn:
        one, other = self._pair(depth)
        more = [self.one(other.kind, self._among((0, depth))) for _ in range(self._among(range(3)))]
        return alike(kind, f"({{}} {self._among(('IN', 'NOT IN'))} ({_slots(1 + len(more))}))", one, other, *more)

    def _between(self, kind: Kind, depth: int) -> Drawn:
        one, low = self._pair(depth)
        form = f"({{}} {self._among(('BETWEEN', 'NOT BETWEEN'))} {{}} AND {{}})"
        return alike(kind, form, one, low, self.one(low.kind, depth))

    def _like(self, kind: Kind, depth: int) -> Drawn:
        word, pattern = self._among(("LIKE", "NOT LIKE")), quoted(self._among(PATTERNS))
        return alike(kind, f"({{}} {word} {pattern})", self.one("text", depth))

    def _is(self, kind: Kind, depth: int) -> Drawn:
        word = self._among(("IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"))
        return alike(kind, f"({{}} {word})", self.any(depth) if "NULL" in word else self.one("bool", depth))

    def _truth(self, kind: Kind, depth: int) -> Drawn:
        sep = self._sep()
        form = self._among((f"({{}}{sep}AND{sep}{{}})", f"({{}}{sep}OR{sep}{{}})", "(NOT {})"))
        return alike(kind, form, self.one("bool", depth), self.one("bool", depth))


def _slots(number: int) -> str:
    return ", ".join(["{}"] * number)


_RULES: Mapping[Kind, Sequence[Callable[..., Drawn]]] = {
    "int": (Drawer._integer, Drawer._integer, Drawer._whole_of_one, Drawer._whole_of_other),
    "float": (Drawer._double, Drawer._double, Drawer._quotient, Drawer._double_of_one, Drawer._double_of_whole),
    "text": (Drawer._text,),
    "bool": (Drawer._compared, Drawer._listed, Drawer._between, Drawer._like, Drawer._is, Drawer._truth),
}


@st.composite
def expressions(draw: st.DrawFn, over: Leaves, kinds: Sequence[Kind], depth: int = 3) -> Drawn:
    """An expression of one of some types."""
    return Drawer(draw, over).one(draw(st.sampled_from(list(kinds))), depth)
