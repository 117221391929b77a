"""Entry point of `rollouts`, `kubectl rollouts` and `python -m rollouts`. Imports only what the command needs."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line; the exit code is for `sys.exit`.

    The controller starts without the terminal tools (typer, rich): they would cost it 20 MiB and are an optional extra.
    """
    arguments = sys.argv[1:]
    match arguments:
        case ["controller", *rest]:
            from rollouts.controller.command import main as controller  # noqa: PLC0415 - only this command needs it

            return controller(rest)
        case ["--version"]:
            from importlib.metadata import version  # noqa: PLC0415

            print(f"rollouts {version('rollouts')}")
            return 0
        case _:
            return _terminal(arguments)


def _terminal(arguments: list[str]) -> int:
    try:
        import rich  # noqa: F401, PLC0415
        import typer  # noqa: F401, PLC0415
    except ImportError:
        print("rollouts: this command needs the extra `cli`: pip install 'rollouts[cli]'", file=sys.stderr)
        return 2
    from rollouts.cli.main import main as cli  # noqa: PLC0415

    return cli(arguments)


if __name__ == "__main__":
    sys.exit(main())
