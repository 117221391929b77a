"""What the server is and serves is found out, and trouble is never read as "not installed"."""

from __future__ import annotations

import pytest

from rollouts.cluster.discovery import ServerVersion, first_served, kind_named, served, server_version
from rollouts.errors import ApiForbidden, ApiUnavailable, RolloutsError
from rollouts.objects import ROLLOUT, SERVICE, Kind
from rollouts.ports import Response
from tests.cluster.stand_ins import Answers


async def test_the_release_is_read_with_a_distributions_plus_sign() -> None:
    """GKE and EKS write the minor version as `36+`."""
    api = Answers({"/version": Response(200, b'{"major":"1","minor":"36+","gitVersion":"v1.36.1-gke.5"}')})

    assert await server_version(api, deadline_s=1) == ServerVersion(1, 36, "v1.36.1-gke.5")


async def test_a_kind_is_served_when_its_resource_is_listed() -> None:
    """The group may be there with other kinds only, after half an installation."""
    listed = b'{"resources":[{"name":"services","kind":"Service"},{"name":"services/status","kind":"Service"}]}'
    nothing = Response(200, b'{"resources":[]}')
    api = Answers({"/api/v1": Response(200, listed), "/apis/rollouts.dev/v1alpha1": nothing})

    assert await served(api, SERVICE, deadline_s=1)
    assert not await served(api, ROLLOUT, deadline_s=1)
    assert not await served(Answers({}), ROLLOUT, deadline_s=1), "that no CRD is installed is an answer, not an error"
    assert await kind_named(api, "v1", "Service", deadline_s=1) == SERVICE
    for there in (api, Answers({})):
        assert await kind_named(there, ROLLOUT.api_version, "Rollout", deadline_s=1) is None


@pytest.mark.parametrize(("status", "error"), [(503, ApiUnavailable), (403, ApiForbidden)])
async def test_trouble_is_not_read_as_absence(status: int, error: type[RolloutsError]) -> None:
    """A starting API server answers 503 to every group; it must not make us think that CRDs are missing."""
    with pytest.raises(error):
        await served(Answers({"/apis/rollouts.dev/v1alpha1": Response(status, b"{}")}), ROLLOUT, deadline_s=1)


OTHERS = {
    "HTML": b"<html>",
    "deep": b'{"x":' + b"[" * 100_000,
    "no UTF-8": b'{"major":"\xff","minor":"1","gitVersion":""}',
    "no UTF-8 either": b'{"resources":[{"name":"\xff","kind":""}]}',
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
async def test_something_that_is_no_api_server_is_said_to_be_none(body: bytes) -> None:
    """A wrong address often answers 200 with a web page."""
    with pytest.raises(ApiUnavailable, match="not a Kubernetes API server"):
        await server_version(Answers({"/version": Response(200, body)}), deadline_s=1)
    with pytest.raises(ApiUnavailable, match="not a Kubernetes API server"):
        await served(Answers({"/api/v1": Response(200, body)}), SERVICE, deadline_s=1)


NEWER, OLDER = Kind("x.dev", "v1", "Route", "routes"), Kind("x.dev", "v1beta1", "Route", "routes")


@pytest.mark.parametrize(("there", "found"), [((NEWER, OLDER), NEWER), ((OLDER,), OLDER), ((), None)])
async def test_the_best_version_that_is_served_is_found(there: tuple[Kind, ...], found: Kind | None) -> None:
    """Of the versions of one kind that we can read the server may have any, or none."""
    listed = Response(200, b'{"resources":[{"name":"routes","kind":"Route"}]}')
    api = Answers({f"/apis/{each.api_version}": listed for each in there})

    assert await first_served(api, (NEWER, OLDER), deadline_s=1) == found


async def test_trouble_is_not_a_missing_version() -> None:
    """Else an older version would be used, and its writes drop what only the newer one knows."""
    with pytest.raises(ApiUnavailable):
        await first_served(Answers({"/apis/x.dev/v1": Response(503, b"{}")}), (NEWER, OLDER), deadline_s=1)
