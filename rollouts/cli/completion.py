"""Completion for shells and for kubectl: what may come next on a command line, with names from the cluster.

`rollouts __complete WORD…` answers as kubectl does: a candidate a line, with a tab before its description, and last a line with a
directive. So the scripts for bash, zsh and fish are a few lines each, and `kubectl_complete-rollouts`, which kubectl runs for its
plugin, is the same program under another name.
Source: kubectl, pkg/cmd/plugin_completion.go, and https://pkg.go.dev/github.com/spf13/cobra#ShellCompDirective.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from rollouts.cli.commands.lint_rules import RULES
from rollouts.cli.terminal.command_line import kinds_of, options_below, options_of
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.in_place import as_replica_sets, revisions_kind
from rollouts.cli.view.objects import number_of, query_of_its_pods, revision_of
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cluster.decoding import manifest_from
from rollouts.cluster.target import AccessFlags
from rollouts.core.model.reasons import Reason
from rollouts.errors import RolloutsError
from rollouts.objects import ANALYSIS_RUN, EXPERIMENT, ROLLOUT, Kind
from rollouts.secret import Secret

ASKED_WITHIN_S = 2.0  # nobody waits longer for a key
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
_REVISIONS = frozenset({"to", "to_revision", "before", "after"})


class Shell(StrEnum):
    """The shells that have a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class Directive(IntEnum):
    """What the shell does besides: cobra's ShellCompDirective."""

    DEFAULT = 0  # it offers files where there is no candidate
    NO_FILES = 4


class Candidate(Struct, frozen=True):
    """A word that may come next."""

    word: str
    about: str = ""

    def __str__(self) -> str:
        return f"{self.word}\t{self.about}" if self.about else self.word


@dataclass(slots=True)
class _Place:
    """Where the last word of a command line stands.

    Args:
        command: the command that the words before it lead to.
        values: of parameters before it, by name.
        awaited: the option whose value the last word is.
        index: how many positional arguments of the command come before it.
    """

    command: Any
    values: dict[str, str] = field(default_factory=dict)
    awaited: Any = None
    index: int = 0

    @property
    def arguments(self) -> list[Any]:
        return [param for param in self.command.params if param.param_type_name == "argument"]


def completion(
    shell: Annotated[Shell, typer.Argument(help="Which shell.", show_default=False)],
) -> None:
    """Print what a shell needs to complete commands and names: `source <(rollouts completion bash)`.

    kubectl completes `kubectl rollouts` itself, by the program `kubectl_complete-rollouts`.
    """
    sys.stdout.write(script(shell))


def script(shell: Shell) -> str:
    """What a shell sources, for `rollouts`; kubectl completes its plugin itself."""
    return {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}[shell]


def complete(root: Any, words: Sequence[str]) -> str:
    """The answer to `__complete WORD…`, whose last word is not finished yet, and may be ""."""
    *before, last = words or [""]
    candidates, directive = _candidates(_place(root, before), last)
    lines = [str(candidate) for candidate in candidates if candidate.word.startswith(last)]
    return "".join(f"{line}\n" for line in [*lines, f":{int(directive)}"])


def _place(root: Any, words: Sequence[str]) -> _Place:
    place, anywhere = _Place(root), options_below(root)
    for word in words:
        options = {**anywhere, **options_of(place.command)}
        flag, sign, value = word.partition("=")
        if place.awaited is not None:
            place.values[place.awaited.name] = word
            place.awaited = None
        elif word.startswith("-") and flag in options:
            if sign:
                place.values[options[flag].name] = value
            elif not getattr(options[flag], "is_flag", False):
                place.awaited = options[flag]
        elif word in getattr(place.command, "commands", {}):
            place = _Place(place.command.commands[word], place.values)
        elif place.index or word not in kinds_of(place.command):
            if place.index < len(place.arguments):
                place.values[place.arguments[place.index].name] = word
            place.index += 1
    return place


def _candidates(place: _Place, last: str) -> tuple[list[Candidate], Directive]:
    if place.awaited is not None:
        return _of_parameter(place.awaited, place)
    if last.startswith("-"):
        options = [param for param in place.command.params if param.param_type_name == "option" and not param.hidden]
        flags = [(flag, option) for option in options for flag in (*option.opts, *option.secondary_opts)]
        candidates = [Candidate(flag, option.help or "") for flag, option in flags if flag.startswith("--")]
        return sorted(candidates, key=str), Directive.NO_FILES
    if commands := getattr(place.command, "commands", {}):
        shown = [(name, commands[name]) for name in sorted(commands) if not commands[name].hidden]
        return [Candidate(name, command.get_short_help_str(80)) for name, command in shown], Directive.NO_FILES
    arguments = place.arguments
    if not arguments or (place.index >= len(arguments) and arguments[-1].nargs != -1):
        return [], Directive.NO_FILES
    return _of_parameter(arguments[min(place.index, len(arguments) - 1)], place)


def _of_parameter(parameter: Any, place: _Place) -> tuple[list[Candidate], Directive]:
    annotation = parameter.type_descriptor.annotation
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [Candidate(str(member.value)) for member in annotation], Directive.NO_FILES
    if parameter.name == "reason":
        explained = {each.value: each.meaning for each in (*RULES.values(), *Reason)}
        return [Candidate(*each) for each in sorted(explained.items())], Directive.NO_FILES
    if parameter.name in ("file", "files", "kubeconfig", "serve", "ca_file"):
        return [], Directive.DEFAULT
    return asyncio.run(
        _names(parameter.name, place.values, kind=_KINDS.get(parameter.metavar or "", ROLLOUT))
    ), Directive.NO_FILES


_KINDS = {"RUN": ANALYSIS_RUN, "EXPERIMENT": EXPERIMENT}
"""What arguments with these placeholders name; the others name Rollouts."""


async def _names(parameter: str, values: Mapping[str, str], *, kind: Kind) -> list[Candidate]:
    """Names from the cluster; none where it does not answer in time, or may not be asked."""
    kubeconfig = values.get("kubeconfig")
    options = Options(
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
        context=values.get("context"),
        namespace=values.get("namespace"),
        request_timeout_s=ASKED_WITHIN_S,
        flags=AccessFlags(
            cluster=values.get("cluster"),
            user=values.get("user"),
            server=values.get("server"),
            token=Secret(values["token"]) if "token" in values else None,
            as_user=values.get("as_user"),
        ),
    )
    try:
        async with asyncio.timeout(ASKED_WITHIN_S), open_session(options) as session:
            if parameter == "namespace":
                return await _listed(session, NAMESPACE)
            if parameter in ("name", "names", "rollout"):
                return await _listed(session, kind)
            if parameter in _REVISIONS:
                name = values.get("name", "")
                if name not in {rollout.word for rollout in await _listed(session, ROLLOUT)}:
                    return []
                rollout = manifest_from(await session.client.get(ROLLOUT, session.namespace, name))
                of, query = revisions_kind(rollout), query_of_its_pods(rollout)
                kept, _ = await list_all(session, Collection(kind=of, namespace=session.namespace, query=query))
                newest_first = sorted(as_replica_sets(kept, ()), key=number_of, reverse=True)
                revisions = ((revision_of(replica_set), number_of(replica_set)) for replica_set in newest_first)
                return [Candidate(revision, f"#{number}") for revision, number in revisions if revision]
    except (RolloutsError, TimeoutError):
        pass
    return []


async def _listed(session: Session, kind: Kind) -> list[Candidate]:
    found, _ = await list_all(session, Collection(kind=kind, namespace=session.namespace if kind.namespaced else None))
    phases = ((thing["metadata"]["name"], (thing.get("status") or {}).get("phase") or "") for thing in found)
    return [Candidate(name, str(phase)) for name, phase in phases]


_BASH = """\
# bash completion of rollouts: source <(rollouts completion bash)
_rollouts() {
    local line answer directive
    COMPREPLY=()
    answer="$(rollouts __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)"
    directive="${answer##*:}"
    while IFS= read -r line; do
        [ -n "$line" ] && COMPREPLY+=("${line%%$'\\t'*}")
    done <<< "${answer%:*}"
    if [ "${#COMPREPLY[@]}" = 0 ] && [ "$directive" = 0 ]; then
        compopt -o default
    fi
}
complete -F _rollouts rollouts
"""

_ZSH = """\
#compdef rollouts
# zsh completion of rollouts: source <(rollouts completion zsh)
_rollouts() {
    local -a lines candidates
    local line answer directive
    answer="$(rollouts __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"
    directive="${answer##*:}"
    lines=("${(@f)${answer%:*}}")
    for line in $lines; do
        [[ -n "$line" ]] && candidates+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    if (( ${#candidates} )); then
        _describe 'rollouts' candidates
    elif [[ "$directive" == 0 ]]; then
        _files
    fi
}
compdef _rollouts rollouts
"""

_FISH = """\
# fish completion of rollouts: rollouts completion fish | source
function __rollouts_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer (rollouts __complete $words[2..-1] 2>/dev/null)
    if test "$answer" = ':0'
        __fish_complete_path (commandline -ct)
    else
        string match -rv '^:[0-9]+$' -- $answer
    end
end
complete -c rollouts -f -a '(__rollouts_complete)'
"""
