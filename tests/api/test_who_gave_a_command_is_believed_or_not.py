"""Promise: the name of a user beside a command is believed only where a policy of the API server writes it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rollouts.api.spec.parse import parse_rollout
from rollouts.api.status.wire import status_from_wire
from rollouts.core.model.author import NAME_MAX, Author, AuthorKind
from tests.api.specs import BLUE_GREEN

MANAGERS = {"rollouts.dev/abort": "kubectl-annotate"}
MANAGER = {"abort": Author("kubectl-annotate", AuthorKind.FIELD_MANAGER)}


def authors(annotations: Mapping[str, str], *, notes: bool) -> Mapping[str, Author]:
    """Who set the commands in these annotations, of which kubectl-annotate manages the abort."""
    return parse_rollout(
        namespace="shop",
        name="cart",
        uid="u",
        resource_version="1",
        generation=1,
        created_at_s=0.0,
        annotations={f"rollouts.dev/{name}": value for name, value in annotations.items()},
        spec=BLUE_GREEN,
        annotators=MANAGERS,
        notes=notes,
    ).annotated_by


ALICE = {"abort": "b", "abort-by": "alice"}


@pytest.mark.parametrize(
    ("annotations", "notes", "told"),
    [
        (ALICE, True, {"abort": Author("alice", AuthorKind.USER)}),
        (ALICE, False, MANAGER),
        ({"abort": "b"}, True, MANAGER),
        ({"abort-by": "alice", "promote-by": "bob"}, True, {}),
    ],
    ids=["a note of the policy", "a note that anybody could have written", "no note", "a note without its command"],
)
def test_the_note_of_the_api_server_names_the_user(
    annotations: dict[str, str], notes: bool, told: dict[str, Author]
) -> None:
    """Else what is known is the program, and everybody's kubectl is the same one. Where the policy fails the note is missing."""
    assert authors(annotations, notes=notes) == told


@pytest.mark.parametrize(
    ("written", "told"), [("a\nb\u202ec", "a?b?c"), ("x" * 10_000, "x" * NAME_MAX), ("système", "système")]
)
def test_a_name_is_one_line_of_bounded_length(written: str, told: str) -> None:
    """It goes into Events, conditions and terminals, and an identity provider may give any."""
    assert authors({"abort": "b", "abort-by": written}, notes=True) == {"abort": Author(told, AuthorKind.USER)}


def test_a_record_of_an_older_controller_is_no_users_name() -> None:
    """It recorded field managers under the same name, without a kind."""
    record = {"verb": "abort", "value": "b", "revision": "b", "at": "2026-11-26T09:00:00Z", "by": "kubectl-annotate"}

    status = status_from_wire({"commands": [record]})

    assert [each.by for each in status.commands] == [Author("kubectl-annotate", AuthorKind.FIELD_MANAGER)]
