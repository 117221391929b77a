"""What happens to ConfigMaps in the random worlds: people edit them, reads fail, copies get lost."""

from __future__ import annotations

from collections.abc import Callable

from rollouts.core.model.frozen import replace
from tests.core.config_worlds import (
    CONF,
    CRED,
    MAYBE,
    copies_moved,
    copy_deleted,
    copy_forged,
    reads_forgotten,
    retained,
    secret_copy_deleted,
    source_removed,
    source_written,
    with_configs,
)
from tests.core.model import World
from tests.core.sources import answered

CONTENTS = ("v1", "v2", "v3")
SOURCES = (CONF.name, MAYBE.name)
CONFIGURATION: dict[str, Callable[[World, int, int], World]] = {
    "a source is edited, or created": lambda there, i, j: source_written(
        there, CONTENTS[i % len(CONTENTS)], SOURCES[j % 2], immutable=i + j == 14
    ),
    "a source is deleted": lambda there, i, _j: source_removed(there, SOURCES[i % 2]),
    "a source is left alone, or not": lambda there, i, j: source_written(
        there, CONTENTS[i % len(CONTENTS)], SOURCES[j % 2], left_alone=i % 2 == 0
    ),
    "reads fail, or not": lambda there, i, _j: with_configs(there, trouble="etcdserver: leader changed" * (i % 2)),
    "reads are slow, or not": lambda there, i, _j: with_configs(there, slow=i % 2 == 0),
    "reads are answered": lambda there, _i, _j: replace(there, configs=answered(there.configs)),
    "reads are forgotten": lambda there, _i, _j: reads_forgotten(there),
    "sources may not be watched, or may": lambda there, i, _j: with_configs(there, forbidden=i % 2 == 0),
    "sources are shared": lambda there, i, _j: with_configs(there, shared_by=i + 1),
    "a copy is deleted": lambda there, i, _j: copy_deleted(there, i),
    "a copy is forged": lambda there, i, _j: copy_forged(there, i),
    "copies lose their owner": lambda there, _i, _j: copies_moved(there, owned=False),
    "copies are retained, or not": lambda there, i, _j: retained(there, retain=i % 2 == 0),
}  # fmt: skip
OF_SECRETS: dict[str, Callable[[World, int, int], World]] = {
    "the Secret is rotated, or created": lambda there, i, j: source_written(
        there, CONTENTS[i % len(CONTENTS)], CRED.name, immutable=i + j == 14
    ),
    "a copy of the Secret is deleted": lambda there, i, _j: secret_copy_deleted(there, i),
    "the Secret is deleted": lambda there, _i, _j: source_removed(there, CRED.name),
}
