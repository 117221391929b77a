"""What happens to Deployments, act by act, and the line that each act comes to (`stage.py` explains it).

The cases about a hold and about ReplicaSets that change hands are what a controller does that steps a Deployment in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tests.contract.deployments.stage import (
    PAUSE,
    RESTORE,
    RESUME,
    Act,
    applied,
    beside,
    both,
    deleted,
    given,
    held,
    hold,
    image,
    inflated,
    limits,
    pods_deleted,
    replaced,
    resized,
    scale,
    spec,
    started,
    taken,
    unselected,
)

Case: TypeAlias = tuple[tuple[Act, str], ...]

RECREATE = {"type": "Recreate", "rollingUpdate": None}
NO_DEADLINE = 2_147_483_647
PAUSED_AT_2 = (PAUSE, image("2"))
CANARY_HOLD = held(limits(1, 0), paused=True)

IN_A_HOLD: Mapping[str, Case] = {
    "each step has the sizes that its limits say": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (PAUSE, "1=10 r1 | 10/10/10/10/0 | Available, DeploymentPaused"),
        (image("2"), "1=10 r1 | 10/0/10/10/0 | Available, DeploymentPaused"),
        (hold(1, 10), "1=10 r1, 2=1 r2 | 11/1/11/10/1 | Available, -"),
        (hold(1, 9), "1=9 r1, 2=1 r2 | 10/1/10/9/1 | Available, -"),
        (hold(3, 9), "1=9 r1, 2=3 r2 | 12/3/12/9/3 | Available, -"),
        (hold(3, 7), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (hold(5, 7), "1=7 r1, 2=5 r2 | 12/5/12/7/5 | Available, -"),
        (hold(5, 5), "1=5 r1, 2=5 r2 | 10/5/10/5/5 | Available, -"),
        (hold(10, 5), "1=5 r1, 2=10 r2 | 15/10/15/5/10 | Available, -"),
        (hold(10, 0), "1=0 r1, 2=10 r2 | 10/10/10/0/10 | Available, -"),
        (RESTORE, "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
    "limits as numbers let the ratio drift when it is scaled": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (scale(20), "1=14 r1, 2=6 r2 | 20/6/20/14/6 | Unavailable, -"),
        (scale(6), "1=3 r1, 2=3 r2 | 6/3/6/3/3 | Available, -"),
        (scale(10), "1=5 r1, 2=5 r2 | 10/5/10/5/5 | Unavailable, -"),
    ),
    "limits as percentages keep the ratio": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, held(limits("0%", "30%"))), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (scale(20), "1=14 r1, 2=6 r2 | 20/6/20/14/6 | Available, -"),
        (scale(6), "1=4 r1, 2=2 r2 | 6/2/6/4/2 | Unavailable, -"),
        (scale(10), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (scale(40), "1=28 r1, 2=12 r2 | 40/12/40/28/12 | Available, -"),
    ),
    "a surge is scaled with its Deployment": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 10)), "1=10 r1, 2=3 r2 | 13/3/13/10/3 | Available, -"),
        (scale(20), "1=18 r1, 2=5 r2 | 23/5/23/18/5 | Unavailable, -"),
        (scale(10), "1=10 r1, 2=3 r2 | 13/3/13/10/3 | Available, -"),
    ),
    "a third template takes the place of the second": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (image("3"), "1=7 r1, 2=0 r2, 3=3 r3 | 10/3/10/7/3 | Available, -"),
    ),
    "a restart is a third template": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (image("2", annotation="now"), "1=7 r1, 2+=3 r3, 2=0 r2 | 10/3/10/7/3 | Available, -"),
    ),
    "pods that are deleted come back in their own version": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (pods_deleted(v1=2, v2=1), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
    ),
    "a pause changes nothing, and is scaled in proportion": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (PAUSE, "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (scale(20), "1=14 r1, 2=6 r2 | 20/6/20/14/6 | Unavailable, -"),
    ),
    "a pause keeps a surge": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 10)), "1=10 r1, 2=3 r2 | 13/3/13/10/3 | Available, -"),
        (PAUSE, "1=10 r1, 2=3 r2 | 13/3/13/10/3 | Available, -"),
        (scale(20), "1=18 r1, 2=5 r2 | 23/5/23/18/5 | Unavailable, -"),
    ),
    "a manifest with limits of its own is still held": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(1, 10)), "1=10 r1, 2=1 r2 | 11/1/11/10/1 | Available, -"),
        (spec(strategy=limits("25%", "25%")), "1=8 r1, 2=5 r2 | 13/5/13/8/5 | Available, -"),
        (RESTORE, "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
    "a replace ends the hold": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(1, 10)), "1=10 r1, 2=1 r2 | 11/1/11/10/1 | Available, -"),
        (replaced("2", replicas=10), "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
    "a hold that begins before its template takes availability from all pods": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (CANARY_HOLD, "1=10 r1 | 10/10/10/0/10 | Unavailable, NewReplicaSetAvailable"),
        (image("2"), "1=10 r1 | 10/0/10/0/10 | Unavailable, NewReplicaSetAvailable"),
        (RESUME, "1=10 r1, 2=1 r2 | 11/1/11/0/11 | Unavailable, -"),
    ),
    "a pause gives all that the limits allow": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (PAUSE, "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (spec(strategy=limits(3, 0)), "1=9 r1, 2=4 r2 | 13/4/13/9/4 | Unavailable, -"),
        (spec(strategy=limits(1, 0)), "1=8 r1, 2=3 r2 | 11/3/11/8/3 | Unavailable, -"),
    ),
    "a manifest without limits changes no limits": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(1, 9)), "1=9 r1, 2=1 r2 | 10/1/10/9/1 | Available, -"),
        (applied("2"), "1=9 r1, 2=1 r2 | 10/1/10/9/1 | Available, -"),
        (applied("2"), "1=9 r1, 2=1 r2 | 10/1/10/9/1 | Available, -"),
        (applied("3"), "1=9 r1, 2=0 r2, 3=1 r3 | 10/1/10/9/1 | Available, -"),
    ),
}

CHANGING_HANDS: Mapping[str, Case] = {
    "a ReplicaSet of somebody else is ignored until it is handed over": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, beside("2", 2)), "1=10 r1, 2!=2 r- | 10/0/10/10/0 | Available, DeploymentPaused"),
        (scale(12), "1=12 r1, 2!=2 r- | 12/0/12/12/0 | Available, DeploymentPaused"),
        (scale(10), "1=10 r1, 2!=2 r- | 10/0/10/10/0 | Available, DeploymentPaused"),
        (
            both(inflated("2"), held(limits(2, 0), paused=True)),
            "1=10 r1, 2!=2 r- | 10/0/10/10/0 | Available, DeploymentPaused",
        ),
        (given("2"), "1=10 r1, 2=2 r2 | 12/2/12/10/2 | Available, DeploymentPaused"),
        (hold(2, 10), "1=10 r1, 2=2 r2 | 12/2/12/10/2 | Available, -"),
        (hold(5, 5), "1=5 r1, 2=5 r2 | 10/5/10/5/5 | Available, -"),
        (hold(10, 0), "1=0 r1, 2=10 r2 | 10/10/10/0/10 | Available, -"),
        (RESTORE, "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
    "one that is saturated ends the old ones at once": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, beside("2", 10)), "1=10 r1, 2!=10 r- | 10/0/10/10/0 | Available, DeploymentPaused"),
        (
            both(spec(strategy=limits(10, 0)), given("2")),
            "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, DeploymentPaused",
        ),
    ),
    "one whose pods are not available ends nothing": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, beside("2", 10)), "1=10 r1, 2!=10 r- | 10/0/10/10/0 | Available, DeploymentPaused"),
        (inflated("2"), "1=10 r1, 2!=10 r- | 10/0/10/10/0 | Available, DeploymentPaused"),
        (held(limits(10, 0), paused=True), "1=10 r1, 2!=10 r- | 10/0/10/10/0 | Available, DeploymentPaused"),
        (given("2"), "1=10 r1, 2=10 r2 | 20/10/20/10/10 | Available, DeploymentPaused"),
        (hold(10, 10), "1=10 r1, 2=10 r2 | 20/10/20/10/10 | Available, -"),
        (hold(10, 6), "1=6 r1, 2=10 r2 | 16/10/16/6/10 | Available, -"),
        (hold(10, 0), "1=0 r1, 2=10 r2 | 10/10/10/0/10 | Available, -"),
        (RESTORE, "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
    "an abort at 3 of 10, and a retry": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (both(PAUSE, taken("2")), "1=10 r1, 2!=3 r2 | 10/0/10/10/0 | Available, -"),
        (resized("2", 0), "1=10 r1, 2!=0 r2 | 10/0/10/10/0 | Available, -"),
        (given("2"), "1=10 r1, 2=0 r2 | 10/0/10/10/0 | Available, -"),
        (hold(3, 10), "1=10 r1, 2=3 r2 | 13/3/13/10/3 | Available, -"),
    ),
    "an abort at 5 of 10": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(5, 5)), "1=5 r1, 2=5 r2 | 10/5/10/5/5 | Available, -"),
        (both(PAUSE, taken("2")), "1=10 r1, 2!=5 r2 | 10/0/10/10/0 | Available, -"),
        (resized("2", 0), "1=10 r1, 2!=0 r2 | 10/0/10/10/0 | Available, -"),
    ),
    "an abort at 8 of 10": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(8, 2)), "1=2 r1, 2=8 r2 | 10/8/10/2/8 | Available, -"),
        (both(PAUSE, taken("2")), "1=10 r1, 2!=8 r2 | 10/0/10/10/0 | Available, -"),
        (resized("2", 0), "1=10 r1, 2!=0 r2 | 10/0/10/10/0 | Available, -"),
    ),
    "an abort of a surge": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 10)), "1=10 r1, 2=3 r2 | 13/3/13/10/3 | Available, -"),
        (both(PAUSE, taken("2")), "1=10 r1, 2!=3 r2 | 10/0/10/10/0 | Available, -"),
    ),
    "one that is taken without a pause is made again": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (taken("2"), "1=7 r1, 2!=3 r2, 2=3 r2 | 10/3/10/7/3 | Available, - | 1 collision"),
    ),
    "without an active one the newest of the old ones grows": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("3"), "1=0 r1, 2=0 r2, 3=10 r3 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(PAUSE, taken("3")), "1=0 r1, 2=10 r2, 3!=10 r3 | 10/0/10/10/0 | Available, DeploymentPaused"),
    ),
    "a first pod for an old one is taken away while the new one is saturated": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("3"), "1=0 r1, 2=0 r2, 3=10 r3 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (PAUSE, "1=0 r1, 2=0 r2, 3=10 r3 | 10/10/10/10/0 | Available, DeploymentPaused"),
        (resized("1", 1), "1=0 r1, 2=0 r2, 3=10 r3 | 10/10/10/10/0 | Available, DeploymentPaused"),
        (taken("3"), "1=0 r1, 2=10 r2, 3!=10 r3 | 10/0/10/10/0 | Available, DeploymentPaused"),
    ),
    "a first pod stays while no pod of the new one is available": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("3"), "1=0 r1, 2=0 r2, 3=10 r3 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (CANARY_HOLD, "1=0 r1, 2=0 r2, 3=10 r3 | 10/10/10/0/10 | Unavailable, NewReplicaSetAvailable"),
        (resized("1", 1), "1=1 r1, 2=0 r2, 3=10 r3 | 11/10/11/1/10 | Unavailable, NewReplicaSetAvailable"),
        (taken("3"), "1=10 r1, 2=0 r2, 3!=10 r3 | 10/0/10/10/0 | Available, NewReplicaSetAvailable"),
        (resized("3", 0), "1=10 r1, 2=0 r2, 3!=0 r3 | 10/0/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
    "a user resumes an aborted Deployment whose ReplicaSet had its name": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (both(PAUSE, taken("2")), "1=10 r1, 2!=3 r2 | 10/0/10/10/0 | Available, -"),
        (resized("2", 0), "1=10 r1, 2!=0 r2 | 10/0/10/10/0 | Available, -"),
        (CANARY_HOLD, "1=10 r1, 2!=0 r2 | 10/0/10/10/0 | Available, -"),
        (RESUME, "1=10 r1, 2!=0 r2, 2=1 r2 | 11/1/11/10/1 | Available, - | 1 collision"),
    ),
    "a user resumes an aborted Deployment": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (
            both(*PAUSED_AT_2, beside("2", 0, owner="deployment")),
            "1=10 r1, 2=0 r2 | 10/0/10/10/0 | Available, DeploymentPaused",
        ),
        (hold(3, 7), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (both(PAUSE, taken("2")), "1=10 r1, 2!=3 r2 | 10/0/10/10/0 | Available, -"),
        (resized("2", 0), "1=10 r1, 2!=0 r2 | 10/0/10/10/0 | Available, -"),
        (CANARY_HOLD, "1=10 r1, 2!=0 r2 | 10/0/10/10/0 | Available, -"),
        (RESUME, "1=10 r1, 2!=0 r2, 2=1 r2 | 11/1/11/10/1 | Available, -"),
    ),
    "one without an owner is adopted": (
        (started(4), "1=4 r1 | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
        (beside("2", 2, owner="none"), "1=4 r1, 2=0 r- | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
    ),
    "one without an owner is the new one if it has the template": (
        (started(4), "1=4 r1 | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
        (PAUSE, "1=4 r1 | 4/4/4/4/0 | Available, DeploymentPaused"),
        (both(image("2"), beside("2", 2, owner="none")), "1=2 r1, 2=3 r2 | 5/3/5/5/0 | Available, DeploymentPaused"),
        (RESUME, "1=0 r1, 2=4 r2 | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
    ),
    "one that is no longer selected is released": (
        (started(4), "1=4 r1 | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
        (unselected("1"), "1!=4 r1, 1=4 r1 | 4/4/4/4/0 | Available, NewReplicaSetAvailable | 1 collision"),
    ),
    "an old one that was taken is made again": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(PAUSE, taken("1")), "1!=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, DeploymentPaused"),
        (image("1"), "1!=0 r1, 2=10 r2 | 10/0/10/10/0 | Available, DeploymentPaused"),
        (RESUME, "1!=0 r1, 1=10 r3, 2=0 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable | 1 collision"),
    ),
    "an old one that is given back is used": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(PAUSE, taken("1")), "1!=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, DeploymentPaused"),
        (image("1"), "1!=0 r1, 2=10 r2 | 10/0/10/10/0 | Available, DeploymentPaused"),
        (given("1"), "1=0 r3, 2=10 r2 | 10/0/10/10/0 | Available, DeploymentPaused"),
        (hold(3, 10), "1=3 r3, 2=10 r2 | 13/3/13/10/3 | Available, -"),
        (hold(10, 0), "1=10 r3, 2=0 r2 | 10/10/10/0/10 | Available, -"),
        (RESTORE, "1=10 r3, 2=0 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
}

MADE_INSIDE: Mapping[str, Case] = {
    "a ReplicaSet that was made for the template is the new one": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (PAUSE, "1=10 r1 | 10/10/10/10/0 | Available, DeploymentPaused"),
        (image("2"), "1=10 r1 | 10/0/10/10/0 | Available, DeploymentPaused"),
        (beside("2", 0, owner="deployment"), "1=10 r1, 2=0 r2 | 10/0/10/10/0 | Available, DeploymentPaused"),
        (hold(1, 10), "1=10 r1, 2=1 r2 | 11/1/11/10/1 | Available, -"),
        (hold(5, 5), "1=5 r1, 2=5 r2 | 10/5/10/5/5 | Available, -"),
        (hold(10, 0), "1=0 r1, 2=10 r2 | 10/10/10/0/10 | Available, -"),
        (RESTORE, "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
    "a template that an old one has needs none": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (PAUSE, "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, DeploymentPaused"),
        (image("1"), "1=0 r3, 2=10 r2 | 10/0/10/10/0 | Available, DeploymentPaused"),
        (hold(1, 10), "1=1 r3, 2=10 r2 | 11/1/11/10/1 | Available, -"),
        (hold(10, 0), "1=10 r3, 2=0 r2 | 10/10/10/0/10 | Available, -"),
        (RESTORE, "1=10 r3, 2=0 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
    "of two with the template the older one is the new one": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (
            both(PAUSE, image("1"), beside("1", 0, owner="deployment")),
            "1=0 r-, 1=0 r3, 2=10 r2 | 10/0/10/10/0 | Available, DeploymentPaused",
        ),
        (hold(1, 10), "1=0 r-, 1=1 r3, 2=10 r2 | 11/1/11/10/1 | Available, -"),
    ),
    "one more of a template that is complete changes nothing": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (
            beside("2", 0, owner="deployment"),
            "1=0 r1, 2=0 r-, 2=10 r2 | 10/10/10/10/0 | Available, NewReplicaSetAvailable",
        ),
        (image("3"), "1=0 r1, 2=0 r-, 2=0 r2, 3=10 r3 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=0 r-, 2=10 r4, 3=0 r3 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
    ),
    "a third template while the second is taken out": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (both(PAUSE, image("3")), "1=7 r1, 2=3 r2 | 10/0/10/7/3 | Available, -"),
        (taken("2"), "1=10 r1, 2!=3 r2 | 10/0/10/10/0 | Available, -"),
        (beside("3", 0, owner="deployment"), "1=10 r1, 2!=3 r2, 3=0 r2 | 10/0/10/10/0 | Available, -"),
        (hold(2, 10), "1=10 r1, 2!=3 r2, 3=2 r2 | 12/2/12/10/2 | Available, -"),
        (resized("2", 0), "1=10 r1, 2!=0 r2, 3=2 r2 | 12/2/12/10/2 | Available, -"),
    ),
    "a third template beside the second": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(3, 7)), "1=7 r1, 2=3 r2 | 10/3/10/7/3 | Available, -"),
        (both(PAUSE, image("3")), "1=7 r1, 2=3 r2 | 10/0/10/7/3 | Available, -"),
        (beside("3", 0, owner="deployment"), "1=7 r1, 2=3 r2, 3=0 r3 | 10/0/10/7/3 | Available, -"),
        (hold(1, 10), "1=7 r1, 2=3 r2, 3=1 r3 | 11/1/11/7/4 | Unavailable, -"),
    ),
}

BY_ITSELF: Mapping[str, Case] = {
    "paused at rest it is scaled, and makes no ReplicaSet": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (PAUSE, "1=10 r1 | 10/10/10/10/0 | Available, DeploymentPaused"),
        (scale(12), "1=12 r1 | 12/12/12/12/0 | Available, DeploymentPaused"),
        (image("2"), "1=12 r1 | 12/0/12/12/0 | Available, DeploymentPaused"),
        (scale(8), "1=8 r1 | 8/0/8/8/0 | Available, DeploymentPaused"),
        (RESUME, "1=0 r1, 2=8 r2 | 8/8/8/8/0 | Available, NewReplicaSetAvailable"),
    ),
    "an update stops at its limits, and is scaled in proportion": (
        (started(progressDeadlineSeconds=NO_DEADLINE), "1=10 r1 | 10/10/10/10/0 | Available, -"),
        (image("2bad"), "1=8 r1, 2bad=5 r2 | 13/5/8/8/5 | Available, -"),
        (scale(20), "1=15 r1, 2bad=10 r2 | 25/10/15/15/10 | Available, -"),
        (scale(7), "1=5 r1, 2bad=4 r2 | 9/4/5/5/4 | Unavailable, -"),
        (image("3"), "1=0 r1, 2bad=0 r2, 3=7 r3 | 7/7/7/7/0 | Available, -"),
    ),
    "three ReplicaSets are scaled in proportion": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(PAUSE, image("4"), spec(strategy=limits(6, 0))), "1=10 r1 | 10/0/10/10/0 | Available, DeploymentPaused"),
        (beside("2", 3, owner="deployment", most=16), "1=13 r1, 2=3 r- | 16/0/16/16/0 | Available, DeploymentPaused"),
        (
            beside("3", 3, owner="deployment", name="ours2", most=16),
            "1=10 r1, 2=3 r-, 3=3 r- | 16/0/16/16/0 | Available, DeploymentPaused",
        ),
        (scale(20), "1=16 r1, 2=5 r-, 3=5 r- | 26/0/26/26/0 | Available, DeploymentPaused"),
        (scale(7), "1=7 r1, 2=3 r-, 3=3 r- | 13/0/13/13/0 | Available, DeploymentPaused"),
        (RESUME, "1=0 r1, 2=0 r-, 3=0 r-, 4=7 r2 | 7/7/7/7/0 | Available, NewReplicaSetAvailable"),
    ),
    "old pods that are not available go first": (
        (started(4, "1bad", progressDeadlineSeconds=NO_DEADLINE), "1bad=4 r1 | 4/4/0/0/4 | Unavailable, -"),
        (image("2"), "1bad=0 r1, 2=4 r2 | 4/4/4/4/0 | Available, -"),
    ),
    "of one replica the old pod stays until the new one is available": (
        (started(1), "1=1 r1 | 1/1/1/1/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=1 r2 | 1/1/1/1/0 | Available, NewReplicaSetAvailable"),
        (
            both(spec(progressDeadlineSeconds=NO_DEADLINE), image("3bad")),
            "1=0 r1, 2=1 r2, 3bad=1 r3 | 2/1/1/1/1 | Available, -",
        ),
        (image("2"), "1=0 r1, 2=1 r4, 3bad=0 r3 | 1/1/1/1/0 | Available, -"),
    ),
    "a deadline passes, and a pause does not hide that": (
        (started(4), "1=4 r1 | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
        (
            both(spec(progressDeadlineSeconds=1), image("2bad")),
            "1=3 r1, 2bad=2 r2 | 5/2/3/3/2 | Available, ProgressDeadlineExceeded",
        ),
        (PAUSE, "1=3 r1, 2bad=2 r2 | 5/2/3/3/2 | Available, ProgressDeadlineExceeded"),
        (image("1"), "1=3 r3, 2bad=2 r2 | 5/3/3/3/2 | Available, ProgressDeadlineExceeded"),
        (RESUME, "1=4 r3, 2bad=0 r2 | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
    ),
    "without replicas a template gets its ReplicaSet": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (scale(0), "1=0 r1 | 0/0/0/0/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=0 r2 | 0/0/0/0/0 | Available, NewReplicaSetAvailable"),
        (scale(4), "1=0 r1, 2=4 r2 | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
    ),
    "old ReplicaSets beyond the limit of the history go": (
        (started(2, revisionHistoryLimit=1), "1=2 r1 | 2/2/2/2/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=2 r2 | 2/2/2/2/0 | Available, NewReplicaSetAvailable"),
        (image("3"), "2=0 r2, 3=2 r3 | 2/2/2/2/0 | Available, NewReplicaSetAvailable"),
        (image("4"), "3=0 r3, 4=2 r4 | 2/2/2/2/0 | Available, NewReplicaSetAvailable"),
    ),
    "a smaller limit of the history holds in a pause, too": (
        (started(2), "1=2 r1 | 2/2/2/2/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=2 r2 | 2/2/2/2/0 | Available, NewReplicaSetAvailable"),
        (both(PAUSE, spec(revisionHistoryLimit=0)), "2=2 r2 | 2/2/2/2/0 | Available, DeploymentPaused"),
    ),
    "all pods are replaced at once": (
        (started(3, strategy={"type": "Recreate"}), "1=3 r1 | 3/3/3/3/0 | Available, NewReplicaSetAvailable"),
        (image("2"), "1=0 r1, 2=3 r2 | 3/3/3/3/0 | Available, NewReplicaSetAvailable"),
        (scale(5), "1=0 r1, 2=5 r2 | 5/5/5/5/0 | Available, NewReplicaSetAvailable"),
        (scale(0), "1=0 r1, 2=0 r2 | 0/0/0/0/0 | Available, NewReplicaSetAvailable"),
        (image("3"), "1=0 r1, 2=0 r2, 3=0 r3 | 0/0/0/0/0 | Available, NewReplicaSetAvailable"),
        (scale(2), "1=0 r1, 2=0 r2, 3=2 r3 | 2/2/2/2/0 | Available, NewReplicaSetAvailable"),
    ),
    "all pods are replaced at once, also those that never became ready": (
        (
            started(3, strategy={"type": "Recreate"}, progressDeadlineSeconds=NO_DEADLINE),
            "1=3 r1 | 3/3/3/3/0 | Available, -",
        ),
        (image("2bad"), "1=0 r1, 2bad=3 r2 | 3/3/0/0/3 | Unavailable, -"),
        (PAUSE, "1=0 r1, 2bad=3 r2 | 3/3/0/0/3 | Unavailable, -"),
        (scale(5), "1=0 r1, 2bad=5 r2 | 5/5/0/0/5 | Unavailable, -"),
        (image("1"), "1=0 r3, 2bad=5 r2 | 5/0/0/0/5 | Unavailable, -"),
        (RESUME, "1=5 r3, 2bad=0 r2 | 5/5/5/5/0 | Available, -"),
    ),
    "an update that is stuck is ended by another strategy": (
        (started(3, progressDeadlineSeconds=NO_DEADLINE), "1=3 r1 | 3/3/3/3/0 | Available, -"),
        (image("2bad"), "1=3 r1, 2bad=1 r2 | 4/1/3/3/1 | Available, -"),
        (spec(strategy=RECREATE), "1=0 r1, 2bad=3 r2 | 3/3/0/0/3 | Unavailable, -"),
    ),
    "limits that round to nothing let one pod lack": (
        (
            started(4, strategy=limits("0%", "10%"), progressDeadlineSeconds=NO_DEADLINE),
            "1=4 r1 | 4/4/4/4/0 | Available, -",
        ),
        (image("2bad"), "1=3 r1, 2bad=1 r2 | 4/1/3/3/1 | Available, -"),
    ),
    "of two that are equally large the newer one grows and the older one shrinks": (
        (started(), "1=10 r1 | 10/10/10/10/0 | Available, NewReplicaSetAvailable"),
        (both(*PAUSED_AT_2, hold(5, 5)), "1=5 r1, 2=5 r2 | 10/5/10/5/5 | Available, -"),
        (scale(11), "1=5 r1, 2=6 r2 | 11/6/11/5/6 | Unavailable, -"),
        (scale(10), "1=5 r1, 2=5 r2 | 10/5/10/5/5 | Available, -"),
        (scale(9), "1=4 r1, 2=5 r2 | 9/5/9/4/5 | Available, -"),
    ),
    "while it is being deleted it only counts": (
        (started(4), "1=4 r1 | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
        (deleted, "1=4 r1 | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
        (beside("2", 2, owner="none"), "1=4 r1, 2!=2 r- | 4/4/4/4/0 | Available, NewReplicaSetAvailable"),
        (image("3"), "1=4 r1, 2!=2 r- | 4/0/4/4/0 | Available, NewReplicaSetAvailable"),
        (resized("1", 5), "1=5 r1, 2!=2 r- | 5/0/5/5/0 | Available, NewReplicaSetAvailable"),
    ),
}

CASES: Mapping[str, Case] = {**IN_A_HOLD, **CHANGING_HANDS, **MADE_INSIDE, **BY_ITSELF}

RACES: Mapping[str, tuple[tuple[Act, ...], frozenset[str]]] = {
    "an undo in a hold: pods of the old version may still count as available": (
        (started(), both(*PAUSED_AT_2, hold(3, 7)), image("1")),
        frozenset(
            ("1=7 r3, 2=3 r2 | 10/7/10/0/10 | Unavailable, -", "1=10 r3, 2=0 r2 | 10/10/10/0/10 | Unavailable, -")
        ),
    ),
    "a hand-over of available pods: they may still count as available": (
        (started(), both(*PAUSED_AT_2, beside("2", 2)), both(spec(strategy=limits(2, 0)), given("2")), hold(2, 10)),
        frozenset(("1=10 r1, 2=2 r2 | 12/2/12/10/2 | Available, -", "1=8 r1, 2=4 r2 | 12/4/12/8/4 | Unavailable, -")),
    ),
}
"""Acts whose last line depends on whose watch is quicker, and the lines that it may be. Of 15 real plays each, the second line
came 7 and 6 times."""
