"""How a command line is read and helped with: as kubectl and its plugins do it, on top of typer.

- An option may stand before the command: `rollouts -n shop list`.
- A flag may be given its value: `--watch=false`, `-o=json`.
- The kind may be named: `get rollout cart`, `retry ro cart`, `rollout/cart`.
- Help has groups of commands, and examples; what is no command gets one line that says what to type.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rollouts.cli.exits import EXIT_HELP, Exit
from rollouts.cli.terminal.elsewhere import SPELLINGS, elsewhere, kind_elsewhere
from rollouts.cli.terminal.examples import EXAMPLES
from rollouts.cli.terminal.options import CLUSTER, KINDS, fail, note

_TRUE, _FALSE = ({"1", "t", "true"}, {"0", "f", "false"})  # Go's strconv.ParseBool, in any case
_WITHOUT_EFFECT = {
    "--cache-dir": "nothing is cached",
    "--disable-compression": "answers are never compressed",
    "--loglevel": "there is no log: -v prints requests",
}
_VALUELESS = frozenset({"--disable-compression"})
_CLUSTER_SHOWN = ("namespace", "context", "kubeconfig", "request_timeout")


class CliGroup(TyperGroup):
    """The commands, or those below one word, such as `analysis`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Options of the command that stand before it move behind it."""
        known = options_below(self)
        rest, own, moved = iter(args), list[str](), list[str]()
        for option, words in parts_of(rest, known):
            if option is None and (not words[0].startswith("-") or words[0] == "--"):
                rest = iter([*words, *moved, *rest])
                break
            (own if option is None and words[0] not in _WITHOUT_EFFECT else moved).extend(words)
        return super().parse_args(ctx, [*own, *rest] or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command. Raises: typer.Exit, after a line that says what to type instead of what is no command."""
        if args[0] not in self.commands:
            fail(_unknown(ctx, self, args))
            raise typer.Exit(Exit.USAGE)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The commands; a word before them takes no options of its own."""
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's signature
        """The commands in their groups, each with a few words about it."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            if not command.hidden:
                text = command.get_short_help_str(formatter.width)
                panels.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append((name, text))
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples, and what holds for all commands."""
        _write_examples(ctx, formatter)
        if ctx.parent is None:
            with formatter.section("For every command"):
                formatter.write_dl([(f"{ctx.command_path} help COMMAND", "its options, with examples"),
                                    (f"{ctx.command_path} help options", "which cluster, and as whom: the flags of kubectl"),
                                    ("--no-color", "no colours; so does $NO_COLOR")])  # fmt: skip
            with formatter.section("Exit codes"):
                formatter.write_dl([(str(int(code)), text) for code, text in EXIT_HELP])


class CliCommand(TyperCommand):
    """One command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the words. Raises: typer.Exit, after a line that says what to type for another kind; what typer raises."""
        own = options_of(self)
        words, positions, unused = list[str](), list[int](), list[str]()
        typed = _as_spelled_here(args, SPELLINGS.get(self.name or "", {}))
        for option, part in parts_of(typed, {**cluster_options(ctx.find_root().command), **own}):
            if option is not None and option not in own.values():
                unused.append(part[0])
                continue
            if option is None and part[0] in _WITHOUT_EFFECT:
                note(f"{part[0]} has no effect: {_WITHOUT_EFFECT[part[0]]}")
                continue
            if option is None and not part[0].startswith("-"):
                positions.append(len(words))
            words += part
        if unused:
            note(f"{ctx.info_name} asks no cluster, so {', '.join(unused)} has no effect")
        if positions:
            self._take_kind(ctx, words, positions)
        return super().parse_args(ctx, words)

    def _take_kind(self, ctx: Any, words: list[str], positions: list[int]) -> None:
        """Takes the kind of the object out of the words, if it is the command's. Raises: typer.Exit for another kind."""
        arguments = [param for param in self.params if param.param_type_name == "argument"]
        kinds = kinds_of(self)
        if arguments and not kinds:
            return
        named = [words[each] for each in positions]
        stands_alone = not any(param.required for param in arguments)
        if not stands_alone and not (len(named) > 1 and "=" not in named[1]) and "/" not in named[0]:
            return  # a name that looks like a kind
        if named[0] in kinds:
            del words[positions[0]]
        elif instead := kind_elsewhere(self.name or "", named, program=ctx.find_root().info_name):
            fail(instead)
            raise typer.Exit(Exit.USAGE)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """What follows the command: its arguments, and that there are options."""
        arguments = [param for param in self.params if param.param_type_name == "argument"]
        return [*(param.metavar or param.name.upper() for param in arguments), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options; of those that choose a cluster only the usual ones."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], f"{CLUSTER} options": []}
        for param in self.get_params(ctx):
            of_cluster = getattr(param, "rich_help_panel", None) == CLUSTER
            record = param.get_help_record(ctx)
            if record is not None and not (of_cluster and param.name not in _CLUSTER_SHOWN):
                title = "Arguments" if param.param_type_name == "argument" else "Options"
                rows[f"{CLUSTER} options" if of_cluster else title].append(record)
        if of_cluster := rows[f"{CLUSTER} options"]:
            of_cluster.append(("", f"and those of kubectl: {ctx.find_root().info_name} help options"))
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples."""
        _write_examples(ctx, formatter)


def kinds_of(command: Any) -> Collection[str]:
    """The words for the kind of object that a command's first argument names; none where it names none."""
    argument = next((param for param in command.params if param.param_type_name == "argument"), None)
    metavar = getattr(argument, "metavar", None) or ""
    return next((words for placeholder, words in KINDS.items() if placeholder in metavar), ())


def options_of(command: Any) -> dict[str, Any]:
    """The options of a command, by each of their flags."""
    return {
        flag: param
        for param in command.params
        if param.param_type_name == "option"
        for flag in (*param.opts, *param.secondary_opts)
    }


def cluster_options(command: Any) -> dict[str, Any]:
    """The options that choose a cluster, of some command below this one."""
    below = options_below(command).items()
    return {flag: param for flag, param in below if getattr(param, "rich_help_panel", None) == CLUSTER}


def options_below(command: Any) -> dict[str, Any]:
    """The options of all commands below this one, by their flags."""
    options: dict[str, Any] = {}
    for below in getattr(command, "commands", {}).values():
        options |= {**options_below(below), **options_of(below)}
    return options


def parts_of(words: Iterator[str], options: Mapping[str, Any]) -> Iterator[tuple[Any, list[str]]]:
    """The words that belong together: an option with its value, as typer reads them; or None with one word, or all after `--`."""
    for word in words:
        flag, sign, value = word.partition("=")
        option = options.get(flag)
        if word == "--":
            yield None, [word, *words]
        elif option is not None and option.is_flag:
            yield option, _flag_words(option, flag, value if sign else None)
        elif option is not None:
            yield option, [flag, value] if sign else [flag, *islice(words, 1)]
        elif not word.startswith("--") and (short := options.get(word[:2])) is not None and not short.is_flag:
            yield short, [word[:2], word[2:]]
        elif flag in _WITHOUT_EFFECT and not sign and flag not in _VALUELESS:
            yield None, [flag, *islice(words, 1)]
        else:
            yield None, [flag] if flag in _WITHOUT_EFFECT else [word]


def _as_spelled_here(words: Iterable[str], spellings: Mapping[str, str]) -> Iterator[str]:
    for word in words:
        flag, sign, value = word.partition("=")
        if flag not in spellings:
            yield word
        elif spellings[flag] or sign:
            yield f"{spellings[flag]}{sign}{value}" if spellings[flag] else value


def _flag_words(option: Any, flag: str, value: str | None) -> list[str]:
    if value is not None and value.lower() in _FALSE:
        other = option.opts if flag in option.secondary_opts else option.secondary_opts
        return [other[0]] if other else []
    return [flag] if value is None or value.lower() in _TRUE else [f"{flag}={value}"]


def _unknown(ctx: Any, group: CliGroup, words: list[str]) -> str:
    """What to type instead of a word that is no command."""
    if ctx.parent is None and (instead := elsewhere(words, program=ctx.find_root().info_name)):
        return instead
    shown = [name for name, command in group.commands.items() if not command.hidden]
    path = ctx.command_path
    if close := difflib.get_close_matches(words[0], shown, n=1):
        return f"there is no command {words[0]!r}: did you mean `{path} {close[0]}`?"
    return f"there is no command {words[0]!r}: `{path} --help` lists all"


def _write_examples(ctx: Any, formatter: Any) -> None:
    program = ctx.find_root().info_name
    lines = [
        (f"{program} {words}", about)
        for words, about in EXAMPLES.get(ctx.command_path.removeprefix(program).strip(), ())
    ]
    width = max((len(line) for line, _ in lines), default=0)
    if lines:
        with formatter.section("Examples"):
            for line, about in lines:
                formatter.write(f"  {line:{width}}  # {about}\n")


def write_cluster_options(ctx: Any, formatter: Any) -> None:
    """All options that choose a cluster, for `help options`."""
    records = {id(param): param.get_help_record(ctx) for param in cluster_options(ctx.command).values()}
    with formatter.section("Before or after every command that asks a cluster"):
        formatter.write_dl([record for record in records.values() if record is not None])
