"""Promise: people see which ConfigMaps each revision has, and what differs between two; of Secrets only which keys."""

from __future__ import annotations

import pytest

from rollouts.cli.picture import NOW_S, example
from rollouts.cli.terminal.table import history_table
from rollouts.cli.terminal.tree import CONFIG_SHOWN
from rollouts.cli.view.config import changed_sources, changes_text, content_of, hash_of, key_changes, size_text, uses_of
from rollouts.cli.view.history import history_rows
from rollouts.cli.view.objects import RolloutObjects, view_of
from rollouts.core.model.config import ConfigUse
from rollouts.core.model.frozen import replace
from rollouts.objects import CONFIG_MAP, REPLICA_SET, ROLLOUT, SECRET, Manifest
from tests.cli.configured import MAP, SECRET_KIND, config_map, install, noted, secret, use
from tests.cli.runs import OWNER, Served, replica_set, rollout
from tests.cli.test_the_tree_shows_what_a_person_needs import drawn, picture

Sources = tuple[Manifest, ...]
OLD = config_map(
    "app", {"LEVEL": "info", "GONE": "x", "nginx.conf": "worker 1;\nlisten 80;\n"}, {"logo.png": b"\x89PNG"}
)
NEW = config_map(
    "app", {"LEVEL": "debug", "MORE": "1", "nginx.conf": "worker 2;\nlisten 80;\n"}, {"logo.png": b"\x89" * 2048}
)
SAME = config_map("same", {"A": "1"})
FLAGS = config_map("flags", {"on": "yes"})
SECRETS = secret("db", {"user": "cart", "password": "hunter2"}), secret("db", {"user": "cart", "password": "hunter3"})


def owned(revision: str, number: int, *uses: ConfigUse) -> dict[str, object]:
    """A ReplicaSet of the Rollout with the uid u1."""
    return noted(replica_set({**rollout(), "metadata": {"name": "cart", "uid": "u1"}}), revision, number, *uses)


def seen(*replica_sets: dict[str, object]) -> RolloutObjects:
    """The Rollout cart with these ReplicaSets."""
    of = rollout()
    metadata = {"name": "cart", "namespace": "default", "uid": OWNER["uid"], "generation": 1}
    return RolloutObjects(rollout={**of, "metadata": metadata}, replica_sets=replica_sets)


def test_the_tree_has_the_configuration_under_each_revision() -> None:
    """Which value a pod answers with is the first question when only some pods do."""
    absent = ConfigUse(kind=MAP, source="extra", content="")
    direct = use(FLAGS, copied=False)
    view = view_of(seen(owned("newrev", 2, use(NEW), direct, absent), owned("oldrev", 1, use(OLD))))

    new, old = view.revisions

    assert new.config == (use(NEW), direct, absent)
    assert old.config == (use(OLD),)
    text = picture(view)
    assert f"ConfigMap app → {use(NEW).copy}" in text and f"ConfigMap app → {use(OLD).copy}" in text
    assert "ConfigMap flags: no copy" in text and "ConfigMap extra: absent" in text
    assert f"ConfigMap app -> {use(NEW).copy}" in picture(view, ascii_only=True)


def test_of_many_sources_some_are_shown() -> None:
    """A template may name fifty; the tree is one screen."""
    uses = tuple(use(config_map(f"app-{n}", {"A": "1"})) for n in range(20))
    revision = replace(example().revisions[0], config=uses)

    text = picture(replace(example(), revisions=(revision,)))

    assert text.count("ConfigMap app-") == CONFIG_SHOWN
    assert f"and {20 - CONFIG_SHOWN} more sources of configuration" in text


@pytest.mark.parametrize("note", ["", "[", "{}", '[{"kind": "Pod"}]', '[{"kind": "ConfigMap", "source": "../x"}]'])
def test_a_note_that_cannot_be_read_shows_no_configuration(note: str) -> None:
    """Anybody may have edited it, and the rest of the picture is needed then most."""
    assert uses_of({"metadata": {"annotations": {"rollouts.dev/config": note}}}) == ()
    assert uses_of({"metadata": {}}) == ()


def test_history_names_what_changed_with_each_revision() -> None:
    """The image is the same on two lines: the reason why there are two is in the column before."""
    sets = (
        owned("third", 3, use(NEW), use(FLAGS), use(SECRETS[1])),
        owned("second", 2, use(OLD), use(SAME), use(SECRETS[0])),
        owned("first", 1, use(OLD), use(SAME), use(SECRETS[0])),
    )

    rows = history_rows(seen(*sets))

    assert [row.config for row in rows] == ["app, +flags, -same, Secret db", "", None]
    header, third, second, first = drawn(history_table(rows, now_s=NOW_S), width=300).splitlines()
    assert header.index("CONFIG CHANGED") < header.index("IMAGES")
    at = header.index("CONFIG CHANGED")
    assert third[at:].startswith("app, +flags, -same, Secret db   ")
    assert second[at] == "-" and first[at] == "-"

    none = history_rows(seen(owned("second", 2), owned("first", 1)))
    assert {row.config for row in none} == {None}, "no column for it, as most tables are read on narrow terminals"


def test_a_source_that_is_absent_is_the_same_as_one_that_is_not_named() -> None:
    """What pods read differs in neither case."""
    absent = ConfigUse(kind=MAP, source="app", content="")

    assert changed_sources([absent], []) == ()
    assert changed_sources([absent], [use(NEW)]) == ((None, use(NEW)),)
    assert changes_text([use(NEW)], [absent]) == "-app"


def test_keys_are_compared_by_what_a_file_would_contain() -> None:
    """Where a value stands, in data or in binaryData, is nothing that a pod sees."""
    text, blob = config_map("app", {"a": "1"}), config_map("app", {}, {"a": b"1"})

    assert key_changes(MAP, content_of(MAP, text), content_of(MAP, blob)) == ()
    (change,) = key_changes(MAP, None, content_of(MAP, blob))
    assert change.after is not None and (change.after.size_bytes, change.after.text) == (1, None)


def test_a_secret_in_a_file_has_the_hash_of_the_stored_one() -> None:
    """The API server writes `stringData` over `data`."""
    in_file = {"data": {"user": "eA=="}, "stringData": {"user": "cart", "password": "hunter2"}}

    assert hash_of(SECRET_KIND, in_file) == hash_of(SECRET_KIND, SECRETS[0])
    assert key_changes(SECRET_KIND, content_of(SECRET_KIND, in_file), content_of(SECRET_KIND, SECRETS[0])) == ()


def test_no_value_of_a_secret_is_in_a_change() -> None:
    """A value that is not there cannot be printed, logged or put into an error."""
    changes = key_changes(SECRET_KIND, content_of(SECRET_KIND, SECRETS[0]), content_of(SECRET_KIND, SECRETS[1]))

    assert [change.key for change in changes] == ["password"]
    assert "hunter" not in repr(changes)


@pytest.mark.parametrize(("size", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (2048, "2 KiB"), (1 << 20, "1 MiB")])
def test_sizes_are_short(size: int, text: str) -> None:
    """Binary values are told by their size alone."""
    assert size_text(size) == text


async def difference(there: Served, before: Sources, after: Sources, *words: str) -> str:
    """What `config diff` prints of two revisions that differ."""
    await install(there, before, after)
    return (await there.run("config", "diff", *(words or ("1", "2")), code=1)).out


async def test_two_revisions_are_compared_key_by_key(there: Served) -> None:
    """As `diff` shows files: what is gone, what is new, and lines of what changed; 1 for a difference."""
    sources = (OLD, SAME, SECRETS[0]), (NEW, SAME, FLAGS, SECRETS[1])
    shown = (await difference(there, *sources, "stable", "canary")).splitlines()

    assert shown[0] == "#1 oldrev (stable) → #2 newrev (canary)"
    assert f"ConfigMap app: {use(OLD).copy} → {use(NEW).copy}" in shown
    lines = {"-GONE: x", "+MORE: 1", "-LEVEL: info", "+LEVEL: debug", "-worker 1;", "+worker 2;", " listen 80;"}
    assert lines <= set(shown)
    assert "  logo.png: binary, 4 bytes → 2 KiB" in shown
    assert "ConfigMap flags: only in #2 newrev" in shown and "+on: yes" in shown
    assert "  password: changed" in shown
    assert not [line for line in shown if "hunter" in line or "user" in line or "same" in line]


@pytest.mark.parametrize(("before", "after"), [("1", "oldrev"), ("#2", "current"), ("canary", "newrev")])
async def test_revisions_with_one_configuration_exit_with_0(there: Served, before: str, after: str) -> None:
    """A script asks whether anything changed. Numbers, hashes and roles name the same revisions."""
    await install(there, (OLD,), (NEW,))

    assert "have the same configuration" in (await there.run("config", "diff", "cart", before, after)).out


async def test_what_is_equal_is_not_read(there: Served) -> None:
    """Hashes say it already; a Secret that did not change is nobody's business."""
    await install(there, (OLD, SECRETS[0]), (NEW, SECRETS[0]))
    await there.run("config", "diff", "1", "2", code=1)

    assert there.door.count(SECRET.plural) == 0
    assert {each.method for each in there.door.asked} == {"GET"}


async def test_a_copy_that_is_gone_is_said_and_its_source_helps_out(there: Served) -> None:
    """Somebody deletes copies by hand; the source may still have that very content."""
    await install(there, (OLD,), (NEW,))
    client = there.session.client
    await client.delete(CONFIG_MAP, "default", use(OLD).copy)

    said = await there.run("config", "diff", "1", "2", code=1)
    assert f"ConfigMap {use(OLD).copy} is gone, so the content is not known any more" in said.out

    await there.create(CONFIG_MAP, OLD)
    assert "-LEVEL: info" in (await there.run("config", "diff", "1", "2", code=1)).out


async def test_a_revision_without_a_copy_says_that_its_source_has_changed(there: Served) -> None:
    """A revision from before an upgrade reads the ConfigMap itself, and only its hash was noted."""
    await install(there, (), (NEW,))
    made = await there.object(ROLLOUT, "cart")
    await there.create(REPLICA_SET, noted(replica_set(made), "before", 3, use(OLD, copied=False)))
    await there.create(CONFIG_MAP, NEW)

    said = await there.run("config", "diff", "before", "canary", code=1)
    assert "ConfigMap app has changed since, and the revision has no copy of it" in said.out


async def test_long_values_are_cut_where_they_differ(there: Served) -> None:
    """A page of JSON in one line, and a file of a thousand lines: the difference is on the screen, all of it on request."""
    one, other = ("x" * 500 + end + "y" * 500 for end in ("A", "B"))
    many = ("".join(f"{word} {n}\n" for n in range(200)) for word in ("old", "new"))
    before, after = (
        config_map("app", {"json": text, "file": file}) for text, file in zip((one, other), many, strict=True)
    )
    await install(there, (before,), (after,))

    cut = (await there.run("config", "diff", "1", "2", code=1)).out
    whole = (await there.run("config", "diff", "1", "2", "--full", code=1)).out

    assert "xA" in cut and "xB" in cut and "(1001 characters)" in cut and one not in cut
    assert "more lines: --full shows them" in cut and "+new 199" not in cut
    assert one in whole and "+new 199" in whole


async def test_a_file_of_many_lines_is_told_by_its_first_difference(there: Served) -> None:
    """The time that a comparison of lines takes grows with their square, and nobody reads a hundred thousand of them."""
    many = [[*["0"] * 9_000, *(f"{letter}{index}" for index in range(15_000))] for letter in "ab"]
    old, new = (config_map("app", {"f": "\n".join(each)}) for each in many)

    shown = await difference(there, (old,), (new,))
    assert "24000 → 24000 lines; the first difference is in line 9001" in shown


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("a\nb\n", "a\nb", ["-(a newline at the end)"]),
        ("a\nb", "a\nc\n", ["@@ -1,2 +1,2 @@", " a", "-b", "+c", "+(a newline at the end)"]),
        ("a", "a\n", ["+(a newline at the end)"]),
    ],
)
async def test_a_newline_at_the_end_is_a_difference(there: Served, old: str, new: str, lines: list[str]) -> None:
    """The pods see it, so two revisions with nothing else between them must not look equal."""
    await install(there, (config_map("app", {"f": old}),), (config_map("app", {"f": new}),))

    assert (await there.run("config", "diff", "1", "2", code=1)).out.splitlines()[3:] == ["  f:", *lines]


async def test_values_cannot_steer_the_terminal(there: Served) -> None:
    """Whoever may write a ConfigMap must not clear the screen of whoever compares it (CWE-150)."""
    evil = "\x1b[2J\x07[bold]x[/bold]"
    values = {"a": evil, "b": f"{evil}\n{evil}\n"}
    shown = await difference(there, (config_map("app", {"a": "x"}),), (config_map("app", values),))

    assert "\x1b" not in shown and "\x07" not in shown
    assert shown.count("[bold]x[/bold]") == 3


async def test_a_revision_that_is_not_kept_is_a_wrong_command_line(there: Served) -> None:
    """1 would say that they differ."""
    await install(there, (OLD,), (NEW,))

    assert "revision 7 is not kept; the kept revisions: #2 newrev (canary), #1 oldrev (stable)" in (
        (await there.run("config", "diff", "cart", "stable", "7", code=2)).err.replace("\n", " ")
    )
    await there.run("config", "diff", "shop", "1", "2", code=4)

    await there.create(ROLLOUT, {**rollout(), "metadata": {"name": "shop"}})
    await there.run("config", "diff", "1", "2", code=1)  # only one Rollout has both
    said = await there.run("config", "diff", "1", "7", code=2)
    assert "no Rollout of the namespace keeps revisions 1 and 7" in said.err


async def test_the_list_has_a_line_for_each_source_of_each_revision(there: Served) -> None:
    """What `kubectl get configmaps` cannot say: which copies belong to which revision."""
    await install(there, (OLD, SAME), (NEW, SAME))

    header, *rows = (await there.run("config", "list", "cart")).out.splitlines()

    assert header.split() == ["NUMBER", "REVISION", "ROLE", "KIND", "SOURCE", "PODS", "READ", "CONTENT"]
    assert [row.split()[:6] for row in rows] == [
        ["#2", "newrev", "canary", "ConfigMap", "app", use(NEW).copy],
        ["#2", "newrev", "canary", "ConfigMap", "same", use(SAME).copy],
        ["#1", "oldrev", "stable", "ConfigMap", "app", use(OLD).copy],
        ["#1", "oldrev", "stable", "ConfigMap", "same", use(SAME).copy],
    ]


async def test_a_rollout_without_configuration_says_so(there: Served) -> None:
    """An empty table looks like a failure."""
    await install(there, (), ())

    assert "no revision of cart has versioned configuration" in (await there.run("config", "list", "cart")).out
