"""Whether SIGTERM reaches the app of a container, judged by the shells and inits in its command line. Pure.

A shell that is process 1 and runs the app as its child does not pass SIGTERM on, and the kernel gives process 1 no default
action for it: the app gets no signal until the grace period is over and it is killed. Measured with `-c 'true; sleep 9'`: dash
0.5.12 (Debian's `sh`) stays in front of the last command, bash 5.2 gives way to it unless there is a pipe or a redirection.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePosixPath

_SHELLS = frozenset({"sh", "ash", "bash", "dash", "ksh", "mksh", "zsh"})
_FLAGS = re.compile(r"-[a-z]{1,32}")
_SEPARATORS = frozenset({";", "&&", "||", "|", "&", "|&"})
_BLOCK_ENDS = frozenset({"fi", "done", "esac"})
_REDIRECTION = re.compile(r"\d*[<>].*")
_SLEEP = re.compile(r"[0-9]{1,9}s?")
_GOES_ON = re.compile(r"\b(?:wait|done|fi|esac)\Z")
SCRIPT_MAX = 4_096
"""Characters of a script that is judged; splitting it into words takes two microseconds for each."""


class Reach(StrEnum):
    """Whether a SIGTERM reaches the app."""

    REACHES = "reaches"  # or the command line gives no reason for doubt
    DEPENDS = "depends"  # some shells give way to their last command, others stay
    SWALLOWED = "swallowed"  # every shell stays in front of the app


def sigterm(words: Sequence[str]) -> Reach:
    """Whether SIGTERM reaches the app of a container with this `command` and `args`.

    Args:
        words: `command` followed by `args`; without a `command` the image decides, and the manifest does not show that.
    """
    if len(words) < 3 or _name(words[0]) not in _SHELLS:  # an init as process 1 passes signals on
        return Reach.REACHES
    flag = next((at for at, word in enumerate(words[1:], 1) if _is_script_flag(word)), None)
    if flag is None or flag + 1 >= len(words) or not all(word.startswith("-") for word in words[1:flag]):
        return Reach.REACHES
    return _of_script(words[flag + 1])


def sleep_s_of(words: Sequence[str]) -> int | None:
    """Seconds of `sleep 15`, also inside `sh -c`; None for any other or longer command."""
    if len(words) == 3 and _name(words[0]) in _SHELLS and _is_script_flag(words[1]):
        words = words[2].split()
    if words and words[0] == "exec":
        words = words[1:]
    if len(words) != 2 or _name(words[0]) != "sleep" or not _SLEEP.fullmatch(words[1]):
        return None
    return int(words[1].removesuffix("s"))


def _of_script(script: str) -> Reach:
    commands = _commands(script) if len(script) <= SCRIPT_MAX else None
    if commands is None or not commands or "trap" in script:  # cannot be read, or it catches signals itself
        return Reach.REACHES
    before, last = commands[-1]
    if last[0] == "exec" or (last[0] in _BLOCK_ENDS and any("exec" in words[:2] for _, words in commands)):
        return Reach.REACHES
    if before in ("|", "&", "|&") or any(_REDIRECTION.fullmatch(word) for word in last) or _goes_on(script):
        return Reach.SWALLOWED
    return Reach.DEPENDS


def _is_script_flag(word: str) -> bool:
    """Whether the word after it is a script: `-c`, `-ec`."""
    return _FLAGS.fullmatch(word) is not None and "c" in word


def _goes_on(script: str) -> bool:
    """Whether the shell still has something to do after its last command has begun: it waits for a background command."""
    return script.rstrip().endswith("&") or bool(_GOES_ON.search(script.rstrip().removesuffix(";").rstrip()))


def _commands(script: str) -> list[tuple[str, list[str]]] | None:
    """Each simple command with the separator before it; None when the quotes do not match."""
    lines = (line for line in script.splitlines() if not line.lstrip().startswith("#"))
    lexer = shlex.shlex(" ; ".join(lines), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[tuple[str, list[str]]] = []
    separator, words = "", list[str]()
    try:
        for token in lexer:
            if token in _SEPARATORS or set(token) <= set(";&|"):
                if words:
                    commands.append((separator, words))
                separator, words = token, []
            else:
                words.append(token)
    except ValueError:
        return None
    return [*commands, (separator, words)] if words else commands


def _name(word: str) -> str:
    return PurePosixPath(word).name
