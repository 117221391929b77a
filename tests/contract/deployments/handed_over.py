"""A ReplicaSet beside the paused Deployment takes the place of the Deployment's own: the acts, and the line that each comes to.

Both are inflated first, so that no controller finds one of them complete. Then the new one comes in, the old one leaves, and the
Deployment gets its user's fields back.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.contract.deployments.cases import PAUSED_AT_2, Case
from tests.contract.deployments.stage import (
    PAUSE,
    RESTORE,
    RESUME,
    beside,
    both,
    given,
    held,
    image,
    inflated,
    limits,
    pods_deleted,
    resized,
    scale,
    started,
    taken,
    uninflated,
)

STARTED = (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable")
ROOM = held(limits("100%", 0), paused=True)
BESIDE_IT = (both(*PAUSED_AT_2, beside("2", 10)), "1=10 r1, 2!=10 r- | 10/0/10/10/0 | Available, DeploymentPaused")
BOTH_INFLATED = (both(inflated("2"), inflated("1")), "1=10 r1, 2!=10 r- | 10/0/10/0/10 | Unavailable, DeploymentPaused")
WITH_ROOM = (ROOM, "1=10 r1, 2!=10 r- | 10/0/10/0/10 | Unavailable, DeploymentPaused")
BOTH_INSIDE = (given("2"), "1=10 r1, 2=10 r2 | 20/10/20/0/20 | Unavailable, DeploymentPaused")
UNTIL_BOTH_ARE_INSIDE = (STARTED, BESIDE_IT, BOTH_INFLATED, WITH_ROOM, BOTH_INSIDE)
OLD_ONE_LEFT = (taken("1"), "1!=10 r1, 2=10 r2 | 10/10/10/0/10 | Unavailable, DeploymentPaused")
ENDED = (both(RESTORE, RESUME), "1!=10 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable")

HANDED_OVER: Mapping[str, Case] = {
    "no ReplicaSet is resized while one takes the place of another": (
        *UNTIL_BOTH_ARE_INSIDE,
        OLD_ONE_LEFT,
        ENDED,
        (resized("1", 0), "1!=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (given("1"), "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("1"), "1=10 r3, 2=0 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
    "it is scaled while both are inside": (
        *UNTIL_BOTH_ARE_INSIDE,
        (scale(20), "1=20 r1, 2=20 r2 | 40/20/40/0/40 | Unavailable, DeploymentPaused"),
        (scale(4), "1=4 r1, 2=4 r2 | 8/4/8/0/8 | Unavailable, DeploymentPaused"),
        (taken("1"), "1!=4 r1, 2=4 r2 | 4/4/4/0/4 | Unavailable, DeploymentPaused"),
        (both(RESTORE, RESUME), "1!=4 r1, 2=4 r2 | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
    ),
    "an undo while both are inside": (
        *UNTIL_BOTH_ARE_INSIDE,
        (image("1"), "1=10 r3, 2=10 r2 | 20/10/20/0/20 | Unavailable, DeploymentPaused"),
        (taken("1"), "1!=10 r3, 2=10 r2 | 10/0/10/0/10 | Unavailable, DeploymentPaused"),
    ),
    "a third template while both are inside": (
        *UNTIL_BOTH_ARE_INSIDE,
        (image("3"), "1=10 r1, 2=10 r2 | 20/0/20/0/20 | Unavailable, DeploymentPaused"),
        (taken("1"), "1!=10 r1, 2=10 r2 | 10/0/10/0/10 | Unavailable, DeploymentPaused"),
        (scale(12), "1!=10 r1, 2=12 r2 | 12/0/12/0/12 | Unavailable, DeploymentPaused"),
    ),
    "a user resumes while both are inside": (
        *UNTIL_BOTH_ARE_INSIDE,
        (RESUME, "1=10 r1, 2=10 r2 | 20/10/20/0/20 | Unavailable, -"),
        (PAUSE, "1=10 r1, 2=10 r2 | 20/10/20/0/20 | Unavailable, -"),
        (taken("1"), "1!=10 r1, 2=10 r2 | 10/10/10/0/10 | Unavailable, -"),
    ),
    "pods are deleted while both are inside": (
        *UNTIL_BOTH_ARE_INSIDE,
        (pods_deleted(v1=3, v2=2), "1=10 r1, 2=10 r2 | 20/10/20/0/20 | Unavailable, DeploymentPaused"),
    ),
    "a smaller one comes in, and gets its size when the old one leaves": (
        STARTED,
        (both(*PAUSED_AT_2, beside("2", 4)), "1=10 r1, 2!=4 r- | 10/0/10/10/0 | Available, DeploymentPaused"),
        (both(inflated("2"), inflated("1")), "1=10 r1, 2!=4 r- | 10/0/10/0/10 | Unavailable, DeploymentPaused"),
        (
            held(limits("40%", 0), paused=True),
            "1=10 r1, 2!=4 r- | 10/0/10/0/10 | Unavailable, DeploymentPaused",
        ),
        (given("2"), "1=10 r1, 2=4 r2 | 14/4/14/0/14 | Unavailable, DeploymentPaused"),
        (taken("1"), "1!=10 r1, 2=10 r2 | 10/10/10/0/10 | Unavailable, DeploymentPaused"),
    ),
    "an old one gets its own seconds back where the template is another one": (
        *UNTIL_BOTH_ARE_INSIDE,
        (image("3"), "1=10 r1, 2=10 r2 | 20/0/20/0/20 | Unavailable, DeploymentPaused"),
        (taken("1"), "1!=10 r1, 2=10 r2 | 10/0/10/0/10 | Unavailable, DeploymentPaused"),
        (uninflated("2"), "1!=10 r1, 2=10 r2 | 10/0/10/10/0 | Available, DeploymentPaused"),
        (both(beside("3", 2, name="ours2")), "1!=10 r1, 2=10 r2, 3!=2 r- | 10/0/10/10/0 | Available, DeploymentPaused"),
    ),
}
