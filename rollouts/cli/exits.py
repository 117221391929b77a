"""Exit codes, for scripts. `docs/cli.md` and the help of `status` list them."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit code says."""

    OK = 0  # done; for `status`: Healthy
    # `status`: Degraded, Aborted, an invalid spec; `lint`, `plan`: problems; `analyze`: no success; `config diff`: a difference;
    # `demo`: not as said
    BAD = 1
    USAGE = 2  # the command line cannot be understood, or needs a confirmation and there is no terminal
    UNFINISHED = 3  # still progressing or paused; the time given ran out; no controller answered
    FAILED = 4  # the API server cannot be reached, refuses, or has no such object
    UNSAFE = 5  # for `plan`: the update can be carried out, and something in it or in the cluster loses requests


EXIT_HELP = (
    (Exit.OK, "done; status: Healthy"),
    (
        Exit.BAD,
        "bad; status: Degraded, Aborted or invalid; lint, plan: problems; analyze: no success; diff: a difference",
    ),
    (Exit.USAGE, "usage"),
    (Exit.UNFINISHED, "not finished; status: progressing or paused; commands: no controller answered"),
    (Exit.FAILED, "the API server cannot be reached, refuses, or has no such object"),
    (Exit.UNSAFE, "plan: something is unsafe"),
)
