"""Reads a condition, in Argo Rollouts' expressions or in CEL, into one tree. Pure.

Both have the same words. Precedence is Argo's (expr): `||`, `&&`, comparisons and `in`, `+ -`, `* / %`, `!` and `not`, `-`, `??`.
CEL has the same order.
Source: https://expr-lang.org/docs/language-definition
"""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct

from rollouts.errors import ExpressionInvalid
from rollouts.metrics.expr_tree import At, Binary, Call, Choice, Each, Items, Literal, Node, Unary, Variable

DEPTH_MAX = 32
SOURCE_BYTES_MAX = 1_024
WORDS_MAX = 200  # and no tree is deeper
RESULT = "result"
NOW = "now"

_BINARY = {
    "||": 10,
    "&&": 15,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 20),
    **dict.fromkeys(("+", "-"), 30),
    **dict.fromkeys(("*", "/", "%"), 60),
    "??": 500,
}
_COMPARED = 20
_UNARY = {"!": 50, "-": 90, "+": 90}
_WORDS = {"or": "||", "and": "&&", "not": "!"}
_TEXT_OPERATORS = ("matches", "contains", "startsWith", "endsWith")
_LITERALS: dict[str, bool | None] = {"true": True, "false": False, "nil": None, "null": None}

_EACH = {"all": "all", "any": "exists", "one": "exists_one", "filter": "filter", "map": "map"}
_EACH_OF_CEL = ("all", "exists", "exists_one", "filter", "map")
ONE_ARGUMENT = (
    *("asInt", "asFloat", "isNaN", "isInf", "isNil", "len", "abs", "ceil", "floor", "round", "min", "max"),
    *("string", "lower", "upper", "trim", "first", "last", "date", "duration"),
)
_CALLS = {**dict.fromkeys(ONE_ARGUMENT, 1), "default": 2}
_CEL_CALLS = {"size": "len", "double": "asFloat", "float": "asFloat", "int": "asInt", "timestamp": "date"}
_CEL_MATH = {name: name for name in ("isNaN", "isInf", "abs", "ceil", "floor", "round")}
_CEL_MATH |= {"least": "min", "greatest": "max"}
_CEL_METHODS = {"size": "len", "lowerAscii": "lower", "upperAscii": "upper", "trim": "trim"}
_INSTEAD = {
    **dict.fromkeys(("sum", "mean", "median"), "let the query do it: sum(), avg() or quantile() in PromQL"),
    **dict.fromkeys(
        ("count", "find", "findIndex", "findLast", "groupBy", "reduce"), "write len(filter(list, {…})), any or all"
    ),
    **dict.fromkeys(
        ("let", "sort", "sortBy", "toJSON", "fromJSON", "keys", "values"), "write the condition without it"
    ),
    **dict.fromkeys(("^", "**"), "write the product"),
    "..": "write the list, [1, 2, 3]",
    "=": "write ==",
    ";": "write one expression, without let",
}


_WORD = re.compile(
    r"""
    (?P<space>\s+)
    |(?P<number>(?:\d[\d_]*(?:\.\d[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    |(?P<sign>\?\?|\?\.|\*\*|\.\.|==|!=|<=|>=|&&|\|\||[-+*/%^<>!?:.,()\[\]{}\#|;=])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "\\": "\\", "'": "'", '"': '"'}


class WordKind(Enum):
    """What a word is; the names of the groups of its pattern."""

    NUMBER = "number"
    TEXT = "text"
    NAME = "name"
    SIGN = "sign"
    END = "end"


class Word(Struct, frozen=True):
    """One word.

    Args:
        text: the text's own value for TEXT, without quotes and escapes.
        at: its first character, from 1.
    """

    kind: WordKind
    text: str
    at: int


def parsed(source: str) -> Node:
    """The tree.

    Raises: ExpressionInvalid. Here and in all modules of conditions its message says what to write, and has no part of the
    condition in it: an argument that was filled in may be a secret.
    """
    reader = _Reader(_words_of(source))
    tree = reader.expression()
    reader.finish()
    return tree


def _words_of(source: str) -> tuple[Word, ...]:
    """The words, and END. Raises: ExpressionInvalid."""
    if len(source.encode(errors="surrogatepass")) > SOURCE_BYTES_MAX:
        raise ExpressionInvalid(f"has more than {SOURCE_BYTES_MAX} bytes")
    found: list[Word] = []
    at = 0
    while at < len(source):
        match = _WORD.match(source, at)
        if match is None:
            raise ExpressionInvalid(f"cannot be read at character {at + 1}")
        where, at = at + 1, match.end()
        text = match[0]
        if match.lastgroup == "space":
            continue
        if match.lastgroup == "number":
            text = text.replace("_", "")
        elif match.lastgroup == "text":
            text = _plain(text, where)
        found.append(Word(WordKind(match.lastgroup), text, where))
    if len(found) > WORDS_MAX:
        raise ExpressionInvalid(f"has more than {WORDS_MAX} words and signs")
    return (*found, Word(WordKind.END, "", len(source) + 1))


def _plain(quoted: str, at: int) -> str:
    if quoted[0] == "`":
        return quoted[1:-1]

    def character(found: re.Match[str]) -> str:
        text = found[1]
        if text[0] in "ux" and len(text) > 1:
            return chr(int(text[1:], 16))
        if text not in _ESCAPES:
            raise ExpressionInvalid(f"has an escape that is not known in the text at character {at}")
        return _ESCAPES[text]

    return _ESCAPE.sub(character, quoted[1:-1])


class _Reader:
    def __init__(self, words: tuple[Word, ...]) -> None:
        self._words = words
        self._next = 0
        self._depth = 0
        # Names that CEL's calls give to elements, and ours for them, the innermost last.
        self._names: list[tuple[str, str]] = []
        self._elements: list[str] = []  # those of them that `#` means
        self._made = 0

    def finish(self) -> None:
        if self._word.kind is not WordKind.END:
            raise self._refused()

    def expression(self, least: int = 0) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ExpressionInvalid(f"has more than {DEPTH_MAX} levels of brackets and operators")
        left = self._operations(self._unary(), least)
        if least == 0:
            if self._skip("?"):
                yes = self.expression()
                self._expect(":")
                left = Choice(left, yes, self.expression())
            while self._skip("|"):
                word = self._take()
                self._expect("(")
                left = self._suffixes(self._call(word, (left,)))
        self._depth -= 1
        return left

    @property
    def _word(self) -> Word:
        return self._words[self._next]

    def _take(self) -> Word:
        word = self._word
        self._next += word.kind is not WordKind.END
        return word

    def _is(self, *signs: str) -> bool:
        return self._word.kind is WordKind.SIGN and self._word.text in signs

    def _skip(self, sign: str) -> bool:
        found = self._is(sign)
        self._next += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._skip(sign):
            raise ExpressionInvalid(f"needs a {sign} at character {self._word.at}")

    def _refused(self) -> ExpressionInvalid:
        at = self._word.at
        if self._word.kind is WordKind.END:
            return ExpressionInvalid("ends too early")
        if (name := self._word.text) in _INSTEAD and self._word.kind is not WordKind.TEXT:
            return ExpressionInvalid(f"{name} cannot be used (character {at}): {_INSTEAD[name]}")
        return ExpressionInvalid(f"cannot be read at character {at}")

    def _operator(self) -> str:
        word = self._word
        if word.kind is WordKind.NAME:
            return _WORDS.get(word.text, word.text)
        return word.text if word.kind is WordKind.SIGN else ""

    def _operations(self, left: Node, least: int) -> Node:
        compared = False
        while True:
            sign, negated = self._operator(), False
            after = self._words[self._next + 1 : self._next + 2]
            if self._word.text == "not" and after and after[0].text == "in" and after[0].kind is WordKind.NAME:
                sign, negated = "in", True
            strength = _COMPARED if sign in _TEXT_OPERATORS else _BINARY.get(sign, -1)
            if strength < 0 or strength < least:
                return left
            if compared and strength == _COMPARED:
                raise ExpressionInvalid(f"compares twice at character {self._word.at}: write a < b && b < c")
            compared = strength == _COMPARED or (compared and strength > _COMPARED)
            self._next += 1 + negated
            right = self.expression(strength + 1)
            left = Call(sign, (left, right)) if sign in _TEXT_OPERATORS else Binary(sign, left, right)
            left = Unary("!", left) if negated else left

    def _unary(self) -> Node:
        sign = self._operator()
        if sign not in _UNARY:
            return self._suffixes(self._primary())
        self._next += 1
        of = self.expression(_UNARY[sign])
        if sign == "+":
            return of
        match of:
            case Literal(float(number)) if sign == "-":
                return Literal(-number)
            case _:
                return Unary(sign, of)

    def _primary(self) -> Node:
        word = self._word
        match word.kind:
            case WordKind.END:
                raise self._refused()
            case WordKind.SIGN:
                return self._bracketed()
        self._next += 1
        if word.kind is WordKind.NAME:
            return self._named(word)
        return Literal(float(word.text) if word.kind is WordKind.NUMBER else word.text)

    def _bracketed(self) -> Node:
        if self._skip("("):
            inner = self.expression()
            self._expect(")")
            return inner
        if self._skip("["):
            return Items(self._arguments("]"))
        if self._elements and self._skip("#"):
            if self._word.kind is WordKind.NAME and self._word.text in ("index", "acc"):
                raise ExpressionInvalid(f"#{self._word.text} cannot be used: compare the elements themselves")
            return Variable(self._elements[-1])
        if self._elements and self._is("."):
            return Variable(self._elements[-1])  # `.key` of it: the dot is a suffix
        if self._is("{"):
            raise ExpressionInvalid(f"has a map or a closure at character {self._word.at} where none can be")
        raise self._refused()

    def _named(self, word: Word) -> Node:
        if word.text in _LITERALS:
            return Literal(_LITERALS[word.text])
        if own := next((own for name, own in reversed(self._names) if name == word.text), ""):
            return Variable(own)
        if word.text == RESULT:
            return Variable(RESULT)
        if self._skip("("):
            return self._call(word, ())
        if word.text == NOW:  # CEL's own form: a variable
            return Variable(NOW)
        if word.text == "math" and self._skip("."):
            function = self._take()
            self._expect("(")
            if function.text not in _CEL_MATH:
                raise ExpressionInvalid(f"has a function of math that is not known at character {function.at}")
            arguments = self._arguments(")")
            return Call(_CEL_MATH[function.text], arguments if len(arguments) == 1 else (Items(arguments),))
        self._next -= 1
        if word.text in _INSTEAD:
            raise self._refused()
        raise ExpressionInvalid(f"has a name at character {word.at} that is not known: what was measured is `result`")

    def _call(self, word: Word, before: tuple[Node, ...]) -> Node:
        """The call of a function whose bracket is open already."""
        name = _CEL_CALLS.get(word.text, word.text)
        if name in (*_EACH, "none"):
            return self._each(name, before)
        if name == "has":
            (argument,) = self._exactly(word, 1, before)
            return Unary("!", Call("isNil", (argument,)))
        if name == "now":
            self._exactly(word, 0, before)
            return Variable(NOW)
        if name not in _CALLS:
            self._next -= 2
            if word.text in _INSTEAD:
                raise self._refused()
            raise ExpressionInvalid(f"calls a function at character {word.at} that is not known")
        if name == "date" and (formatted := self._exactly(word, 0, before, more=True)):
            return Call(name, formatted)
        if name in ("min", "max"):
            several = self._exactly(word, 0, before, more=True)
            return Call(name, several if len(several) == 1 else (Items(several),))
        return Call(name, self._exactly(word, _CALLS[name], before))

    def _exactly(self, word: Word, count: int, before: tuple[Node, ...], *, more: bool = False) -> tuple[Node, ...]:
        found = before + self._arguments(")")
        if len(found) != count and not (more and found):
            raise ExpressionInvalid(f"gives the function at character {word.at} {len(found)} arguments, not {count}")
        return found

    def _arguments(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._skip(end):
            found.append(self.expression())
            if not self._is(end):
                self._expect(",")
        return tuple(found)

    def _each(self, name: str, before: tuple[Node, ...]) -> Node:
        """`all(list, {# < 1})`, with or without the braces."""
        items = before[0] if before else self.expression()
        if not before:
            if self._is(")"):
                raise ExpressionInvalid(
                    f"needs what is to hold at character {self._word.at}: {name}(result, {{# < 1}})"
                )
            self._expect(",")
        element = self._element()
        self._elements.append(element)
        braced = self._skip("{")
        body = self.expression()
        if braced:
            self._expect("}")
        self._elements.pop()
        self._expect(")")
        if name == "none":
            return Unary("!", Each("exists", items, element, body))
        return Each(_EACH[name], items, element, body)

    def _suffixes(self, node: Node) -> Node:
        while True:
            if self._is("?.") and self._words[self._next + 1].text == "[":
                self._next += 1
            if self._skip("["):
                node = At(node, self.expression())
                if self._is(":"):
                    raise ExpressionInvalid(
                        f"has a slice at character {self._word.at}: name the items, or let the query"
                    )
                self._expect("]")
            elif self._skip(".") or self._skip("?."):
                node = self._member(node)
            else:
                return node

    def _member(self, node: Node) -> Node:
        if self._word.kind is not WordKind.NAME:
            raise self._refused()
        word = self._take()
        if not self._skip("("):
            return At(node, Literal(word.text))
        if word.text in _EACH_OF_CEL:
            return self._each_of_cel(node, word.text)
        if word.text in _TEXT_OPERATORS:
            return Call(word.text, self._exactly(word, 2, (node,)))
        if word.text in _CEL_METHODS:
            return Call(_CEL_METHODS[word.text], self._exactly(word, 1, (node,)))
        raise ExpressionInvalid(f"calls a method at character {word.at} that is not known")

    def _each_of_cel(self, items: Node, kind: str) -> Node:
        """`list.all(x, x < 1)`."""
        word = self._take()
        if word.kind is not WordKind.NAME or word.text in (RESULT, NOW, *_LITERALS, *_WORDS):
            raise ExpressionInvalid(f"needs a name for the element at character {word.at}: result.all(x, x < 1)")
        self._expect(",")
        element = self._element()
        self._names.append((word.text, element))
        body = self.expression()
        self._names.pop()
        self._expect(")")
        return Each(kind, items, element, body)

    def _element(self) -> str:
        """A name that nobody else has."""
        self._made += 1
        return f"e{self._made}"
