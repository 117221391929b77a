"""Entry point of `rollouts`, `kubectl rollouts` and `python -m rollouts`. It imports only what the command needs."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator


def main() -> int:
    """Runs the command line and returns the exit code.

    The controller starts without the terminal libraries (typer, rich): they would cost it 20 MiB and are an optional extra.
    """
    arguments = sys.argv[1:]
    match arguments:
        case ["controller", *rest]:
            # Libraries import optional ones that are installed: that takes a sixth of the controller's start-up time.
            sys.modules["rich"] = None  # type: ignore[assignment]  # structlog would draw tracebacks with it
            # pydantic would read every package's entry points.
            os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
            with _importing():
                from rollouts.controller.command import main as controller  # noqa: PLC0415 - only this command needs it

            return controller(rest)
        case ["--version"]:
            from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - costs as much as all else here

            try:
                print(f"rollouts {version('rollouts-dev')}")
            except PackageNotFoundError:
                print("rollouts, unknown version: run from a source tree that is not installed")
            return 0
        case _:
            return _terminal(arguments)


def complete() -> int:
    """Entry point of `kubectl_complete-rollouts`: what may come next after `kubectl rollouts`; returns the exit code."""
    return _terminal(["__complete", *sys.argv[1:]])


@contextlib.contextmanager
def _importing() -> Iterator[None]:
    """Modules stay to the end, and have no garbage: to look for some in them takes a quarter of the start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _terminal(arguments: list[str]) -> int:
    with _importing():
        try:
            import rich  # noqa: F401, PLC0415
            import typer  # noqa: F401, PLC0415
        except ImportError:
            missing = "rollouts: this command needs the extra `cli`: in the source tree, pip install '.[cli]'"
            print(missing, file=sys.stderr)
            return 2
        from rollouts.cli.main import main as cli  # noqa: PLC0415

    return cli(arguments)


if __name__ == "__main__":
    sys.exit(main())
