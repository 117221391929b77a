"""The words of a condition. Argo Rollouts' expressions and CEL have the same ones. Pure.

Source: https://expr-lang.org/docs/language-definition
"""

from __future__ import annotations

import re
from enum import Enum, auto

from msgspec import Struct

from rollouts.errors import ExpressionInvalid

SOURCE_BYTES_MAX = 1_024
WORDS_MAX = 200  # and no tree is deeper


class WordKind(Enum):
    """What a word is."""

    NUMBER = auto()
    TEXT = auto()
    NAME = auto()
    SIGN = auto()
    END = auto()


class Word(Struct, frozen=True):
    """One word.

    Args:
        text: the text's own value for TEXT, without quotes and escapes.
        at: its first character, from 1.
    """

    kind: WordKind
    text: str
    at: int


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


def words_of(source: str) -> tuple[Word, ...]:
    """
    The words, and END.

    Raises: ExpressionInvalid. Here and in all modules of conditions its message says what to write, and has no part of the
    condition in it: an argument that was filled in may be a secret.
    """
    if len(source.encode(errors="surrogatepass")) > SOURCE_BYTES_MAX:
        raise ExpressionInvalid(f"has more than {SOURCE_BYTES_MAX} bytes")
    found: list[Word] = []
    at = 0
    while at < len(source):
        match = _WORD.match(source, at)
        if match is None:
            raise ExpressionInvalid(f"cannot be read at character {at + 1}")
        where, at = at + 1, match.end()
        match match.lastgroup:
            case "number":
                found.append(Word(WordKind.NUMBER, match[0].replace("_", ""), where))
            case "name":
                found.append(Word(WordKind.NAME, match[0], where))
            case "text":
                found.append(Word(WordKind.TEXT, _plain(match[0], where), where))
            case "sign":
                found.append(Word(WordKind.SIGN, match[0], where))
            case _:
                pass
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
