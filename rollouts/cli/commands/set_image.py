"""`rollouts set image`: gives containers of the pod template other images, which starts an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from msgspec import Struct
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.command_line import CliCommand
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import NameArgument, fail, on_cluster
from rollouts.cli.terminal.text import marks_for
from rollouts.cli.view.missing import the_rollout
from rollouts.cli.view.objects import RolloutObjects, update_command
from rollouts.cli.view.session import Options, open_session
from rollouts.cli.view.verb_plans import FIELD_MANAGER, paused_words
from rollouts.objects import ROLLOUT, Manifest
from rollouts.ports import JSON_PATCH

app = typer.Typer(help="Change one thing of a Rollout's pod template, which starts an update.")
EVERY = "*"  # as in `kubectl set image`
_LISTS = ("initContainers", "containers")


class ImageChange(Struct, frozen=True):
    """Another image for one container, whose path is a JSON Pointer."""

    path: str
    container: str
    before: str
    after: str

    def operations(self) -> list[Manifest]:
        """Replaces the image only while the container and its image are those that were seen."""
        return [
            {"op": "test", "path": f"{self.path}/name", "value": self.container},
            {"op": "test", "path": f"{self.path}/image", "value": self.before},
            {"op": "replace", "path": f"{self.path}/image", "value": self.after},
        ]


@app.command("image", cls=CliCommand)
@on_cluster
async def set_image(
    options: Options,
    name: NameArgument,
    images: Annotated[
        list[str],
        typer.Argument(metavar="CONTAINER=IMAGE…", help="`*=IMAGE` is for every container.", show_default=False),
    ],
) -> Exit:
    """Give containers of the pod template other images, which starts an update. What a GitOps tool manages, it sets back."""
    try:
        wanted = parse_images(images)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    console = Console()
    async with open_session(options) as session:
        rollout = await the_rollout(session, name)
        found = changes_of(rollout, wanted)
        if isinstance(found, str):
            fail(f"{name}: {found}")
            return Exit.BAD
        if not found:
            print_line(console, f"{name}: has these images already")
            return Exit.OK
        patch = [operation for change in found for operation in change.operations()]
        await session.client.patch(ROLLOUT, session.namespace, name, patch, JSON_PATCH, field_manager=FIELD_MANAGER)
    arrow = marks_for(ascii_only=console.options.ascii_only).arrow
    paused = paused_words(RolloutObjects(rollout=rollout))
    lines = [f"{name}: {change.container}: {change.before} {arrow} {change.after}{paused}" for change in found]
    for line in (*lines, f"{arrow} kubectl rollouts get {name} -w"):
        print_line(console, line)
    return Exit.OK


def changes_of(rollout: Manifest, images: Mapping[str, str]) -> tuple[ImageChange, ...] | str:
    """What has to change; a text says which container there is not."""
    if (reference := rollout["spec"].get("workloadRef")) is not None:
        return f"its pod template is that of {reference['kind']} {reference['name']}: {update_command(rollout)}"
    pod = rollout["spec"]["template"]["spec"]
    containers = [(part, index, container) for part in _LISTS for index, container in enumerate(pod.get(part) or ())]
    names = [container["name"] for _, _, container in containers]
    if missing := [name for name in images if name not in (EVERY, *names)]:
        return f"there is no container {missing[0]}; the containers are {', '.join(names)}"
    found = []
    for part, index, container in containers:
        name, before = container["name"], container.get("image", "")
        wanted = images.get(name, images.get(EVERY, "") if part == "containers" else "")
        if wanted and wanted != before:
            found.append(ImageChange(f"/spec/template/spec/{part}/{index}", name, before, wanted))
    return tuple(found)


def parse_images(words: Sequence[str]) -> dict[str, str]:
    """`app=registry.example/app:2` by container. Raises: ValueError, with a sentence."""
    pairs = [word.partition("=") for word in words]
    if wrong := [word for word, (name, _, image) in zip(words, pairs, strict=True) if not name or not image]:
        raise ValueError(f"write CONTAINER=IMAGE, for example app=registry.example/app:1.5.0, not {wrong[0]!r}")
    if wrong := [word for word in words if any(map(str.isspace, word))]:
        raise ValueError(f"an image has no spaces: {wrong[0]!r}")
    names = [name for name, _, _ in pairs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} is given two images; name each container once")
    return {name: image for name, _, image in pairs}
