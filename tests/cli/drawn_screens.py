"""What commands show on terminals and in pipes: `python -m tests.cli.drawn_screens` writes tests/cli/screens."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from rich.console import Console, RenderableType

from rollouts.cli.picture import NOW_S, analysed, example
from rollouts.cli.terminal.listing import print_drawn
from rollouts.cli.terminal.table import HistoryRow, RolloutRow, history_table, rollout_table
from rollouts.cli.terminal.tree import draw
from rollouts.cli.view.tree import RolloutView, ScalingLine, UseLine
from rollouts.cli.view.ways import wait_line
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import RolloutStatus, WaitingFor

FOLDER = Path(__file__).parent / "screens"
WIDTHS = (60, 80, 120, 200)
PIPE = 0  # no terminal
UNDER_WAY = RolloutStatus(current_revision="f7w2k9xq4c", stable_revision="b8n5t6zr2d")
PULL = (
    "waiting for 1 pod of revision f7w2k9xq4c to be available; 0 are; pod checkout-f7w2k9xq4c-8zxkd: ImagePullBackOff"
)


def waits(view: RolloutView, reason: Reason, message: str, *, since_s: float, left_s: float | None) -> RolloutView:
    """The Rollout with another wait."""
    status = replace(UNDER_WAY, stable_revision="") if view.steps_skipped else UNDER_WAY
    wait = WaitingFor(reason, message, NOW_S - since_s, NOW_S + left_s if left_s is not None else None)
    return replace(view, waiting=wait_line(wait, status, namespace=view.namespace, name=view.name))


def views() -> tuple[RolloutView, ...]:
    """Rollouts in every phase, one of them with a name as long as a Service may have."""
    cart = example()
    moving = replace(cart, name="recommendations-for-returning-customers-europe-west", phase="Progressing", step_index=2,
                     weight_percent=50, live_percent=25)  # fmt: skip
    stuck = replace(cart, name="checkout", phase="Degraded", step_index=0, weight_percent=25, live_percent=0, ready=3)
    first = replace(cart, name="search", phase="Progressing", weight_percent=None, live_percent=None, step_index=4,
                    steps_skipped=True, ready=0, available=0)  # fmt: skip
    done = replace(cart, name="web", phase="Healthy", message="", waiting=None, weight_percent=None, step_index=4,
                   at_rest=True, desired=12, ready=12, available=12)  # fmt: skip
    wrong = replace(cart, name="mail", phase="Degraded", waiting=None, weight_percent=None, problems=(
        "spec.strategy.canary.steps[2].setWeight: must be 0 to 100",))  # fmt: skip
    small = replace(
        cart, name="api", phase="Progressing", weight_percent=Fraction(1, 2), live_percent=None, step_index=0
    )
    return (
        cart,
        waits(moving, Reason.TRAFFIC_SWITCHING, "waiting until 50 % is live on 2 of 3 proxies", since_s=4, left_s=None),
        waits(stuck, Reason.PODS_NOT_AVAILABLE, PULL, since_s=300, left_s=300),
        waits(first, Reason.PODS_NOT_AVAILABLE, "waiting for 4 pods of revision f7w2k9xq4c to be available; 0 are",
              since_s=3, left_s=597),
        done,
        wrong,
        waits(small, Reason.TIMED_PAUSE, "step 0: pause of 10 m", since_s=60, left_s=540),
    )  # fmt: skip


def scaled() -> RolloutView:
    """A canary whose container burns, held by the autoscaling gate; the autoscaler calls the average fine."""
    burns = (
        "container app of revision f7w2k9xq4c uses 173 % of its cpu request (limit 90 %); to go on nevertheless: "
        "rollouts promote cart -n shop; to go back: rollouts abort cart -n shop"
    )
    held = waits(replace(example(), phase="Progressing", step_index=0, events=()), Reason.CONTAINER_OVER_LIMIT, burns,
                 since_s=80, left_s=None)  # fmt: skip
    canary, stable = held.revisions
    return replace(
        held,
        scaling=(ScalingLine("cart", 4, 5, 20, NOW_S - 700, NOW_S - 12),),
        revisions=(
            replace(canary, use=UseLine("app cpu", 173, 1, 1, NOW_S - 12)),
            replace(stable, use=UseLine("app cpu", None, 2, 3, NOW_S - 40)),
        ),
    )


def listing(*, wide: bool = False, all_namespaces: bool = False) -> RenderableType:
    """`list`; with every namespace also one with a long name."""
    shown = [each for each in views() if all_namespaces or len(each.name) < 20]
    rows = [
        RolloutRow(view=each, created_at_s=NOW_S - 270_000, revision="f7w2k9xq4c", stable="b8n5t6zr2d")
        for each in shown
    ]
    return rollout_table(rows, now_s=NOW_S, wide=wide, all_namespaces=all_namespaces)


def history() -> RenderableType:
    """`history`."""
    kept = HistoryRow(number=7, revision="f7w2k9xq4c", roles=("canary",), outcome="", images=("ghcr.io/acme/cart:1.5.0",),
                      kept=True, ready=1, desired=1, finished_at_s=None, took_s=None, config="cart-settings")  # fmt: skip
    rows = (
        kept,
        replace(kept, number=6, revision="b8n5t6zr2d", roles=("stable",), outcome="Promoted", finished_at_s=NOW_S - 270_000,
                took_s=412.0, config="", images=("ghcr.io/acme/cart:1.4.2",)),
        replace(kept, number=5, revision="c4x9v7pm2s", roles=(), outcome="RolledBack", finished_at_s=NOW_S - 400_000,
                took_s=88.0, ready=0, desired=0, images=("ghcr.io/acme/cart:1.4.1", "docker.io/envoyproxy/envoy:v1.31.0")),
    )  # fmt: skip
    return history_table(rows, now_s=NOW_S)


DRAWN: dict[str, Callable[[], RenderableType]] = {
    "list": listing,
    "list-all": lambda: listing(all_namespaces=True),
    "list-wide": lambda: listing(wide=True),
    "get-paused": lambda: draw(example(), now_s=NOW_S),
    "get-moving": lambda: draw(views()[1], now_s=NOW_S),
    "get-held": lambda: draw(analysed(), now_s=NOW_S),
    "get-first": lambda: draw(views()[3], now_s=NOW_S),
    "get-scaled": lambda: draw(scaled(), now_s=NOW_S),
    "history": history,
}


def screen(name: str, width: int, *, colour: bool = False) -> str:
    """What a command prints.

    Args:
        width: of the terminal; PIPE for none.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=width or 80,
        force_terminal=bool(width),
        color_system="truecolor" if colour else None,
        no_color=not colour,
    )
    print_drawn(console, DRAWN[name]())
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def screens() -> Iterator[tuple[Path, str, int]]:
    """The file, the name and the width of each screen."""
    for name in DRAWN:
        for width in (PIPE, *WIDTHS):
            yield FOLDER / f"{name}-{width or 'pipe'}.txt", name, width


if __name__ == "__main__":
    for path, name, width in screens():
        path.write_text(screen(name, width), encoding="utf-8")
        sys.stdout.write(f"{path}\n")
