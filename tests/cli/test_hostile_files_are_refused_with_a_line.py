"""Whatever a file contains, a command says which line cannot be read: it never crashes, hangs, or leaves a part out."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rollouts.cli.kubernetes.pods import template_problems
from rollouts.cli.kubernetes.yaml_text import KubernetesLoader, read_text
from rollouts.objects import Manifest
from tests.cli.broken_manifests import GOOD
from tests.cli.command_line import CommandLine
from tests.cli.pod_templates import PAIRS
from tests.cli.test_lint_passes_nothing_unchecked import cart
from tests.cli.test_lint_raises_no_false_alarm import FILES
from tests.linted import lint_text

HEAD = "apiVersion: rollouts.dev/v1alpha1\nkind: Rollout\n"
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2000))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (f'{HEAD}metadata: {{name: "a\x00b"}}\n', 3, "the character U+0000 is not allowed; remove it"),
        (f"{HEAD}spec: {'[' * 500}{']' * 500}\n", 1, "nested more than 200 levels deep"),
        (f"{HEAD}{CHAIN}", 1, "nested more than 200 levels deep"),
        (f"{HEAD}spec: &s {{template: *s}}\n", 1, "contains itself"),
        (f"{HEAD}{BOMB}spec: {{template: *a8}}\n", 1, "its aliases make"),
        (f"{HEAD}spec: {{replicas: {'9' * 5000}}}\n", 3, "is no int"),
        (f"{HEAD}metadata: {{name: 0x_}}\n", 3, "'0x_' is no int"),
        (f'{HEAD}metadata: {{name: !!bool "abc"}}\n', 3, "'abc' is no bool; correct it"),
        (f'{HEAD}metadata: {{name: !!int "-"}}\n', 3, "'-' is no int; correct it"),
        (f'{HEAD}metadata: {{name: "\\uD800"}}\n', 3, "a half of a character"),
        (f'{HEAD}metadata: {{name: "\\UFFFFFFFF"}}\n', 3, "is out of range"),
        (f"{HEAD}metadata: !!map [a]\n", 3, "expected a mapping"),
        (f"{HEAD}metadata: {{name: !!timestamp 2001-99-99}}\n", 3, "could not determine a constructor"),
        (f"{HEAD}null: x\n", 1, "a key must be a text"),
        ("kind: Rollout\nkind: Rollout\n", 2, "key 'kind' is given twice"),
        ("a: [1,\n", 2, "expected"),
        ("- just a list\n", 1, "a Kubernetes object is a mapping"),
        (f"{HEAD}metadata: {{name: x}}\n", 1, "spec: a mapping is required"),
    ],
)
def test_a_document_that_cannot_be_read_is_one_problem(text: str, line: int, words: str) -> None:
    """People lint what a pull request of a stranger contains: no text may end the check of all the others."""
    (problem,) = lint_text(text).problems

    assert problem.line == line and words in problem.message


ODD: tuple[Any, ...] = ([], {}, 1, -1.5, "x", "", True, None, [[]], [None], [{}], {"a": []}, {"name": []})


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for name, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from [(*path, name), *_places(part, (*path, name))]


def test_a_pod_template_may_have_anything_anywhere() -> None:
    """What has another type than the API server takes is a problem, and no traceback."""
    odd = itertools.cycle(ODD)
    for pair in PAIRS:
        for *above, last in _places(pair.template(pair.refused)):
            template = place = pair.template(pair.refused)
            for part in above:
                place = place[part]
            place[last] = next(odd)

            assert all(path.startswith("spec.template") for path, _ in template_problems(template, "spec.template"))


@pytest.mark.parametrize(
    "of", [GOOD, *(FILES[name] for name in ("Flagger's istio", "an analysis with istio "))], ids=len
)
def test_any_object_may_have_anything_anywhere(of: Any) -> None:
    """`namespace: 123` is a problem with its line, in every object that is compared with others."""
    whole = list(of.values()) if isinstance(of, dict) else of
    odd = itertools.cycle(ODD)
    for *above, last in _places(whole):
        if above:
            objects = place = copy.deepcopy(whole)
            for part in above:
                place = place[part]
            place[last] = next(odd)

            assert lint_text(yaml.safe_dump_all(objects)).counts.total() <= len(whole)


def test_anchors_as_people_use_them_are_no_bomb() -> None:
    """One list of variables for every container, and settings that are merged, are what anchors are for."""
    data = "".join(f"  key-{n}: *text\n" for n in range(300))

    assert not lint_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, labels: &all {{app: cart}}}}\ndata:\n  first: &text value\n{data}"
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, labels: &more {app: cart}, annotations: {<<: *more}}\n"
    ).problems


def test_keys_that_are_numbers_are_texts_as_for_kubernetes() -> None:
    """JSON has no other keys, and kubectl turns `8080: web` into `"8080": web` before it sends it."""
    assert yaml.load("{8080: web, true: x, no: y}", KubernetesLoader) == {"8080": "web", "true": "x", "false": "y"}  # noqa: S506
    told = [each.message for each in lint_text(f"{HEAD}1: x\nmetadata: {{name: cart}}\nspec: {{2: x}}\n").problems]
    assert any(each.startswith("1: unknown field") for each in told)


TAGS = (
    "bool", "int", "float", "null", "str", "timestamp", "binary", "set", "omap", "pairs", "map", "seq", "merge", "value", "yaml",
    "python/name:os.system",
)  # fmt: skip
TEXTS = (
    "abc", "-", "''", '""', "0x", "0b2", "0o9", "1:", "1:99:-", ".", "+.", "1e", "2001-99-99", "2001-01-01t99:00:00Z", "=", "<<",
    "'<'", "[a]", "{a: b}", "{=: 1}", "{<<: 1}", "{<<: [1]}", "{<<: {a: 1}}", "[[a, b], [c]]", "[{a: 1, b: 2}]", "'%%%'", "é",
    "9" * 5000, '"\\uD800"', '"\\UFFFFFFFF"', '"\\U0011FFFF"',
)  # fmt: skip


@pytest.mark.parametrize("tag", ["", *TAGS])
def test_a_tag_on_a_wrong_text_is_a_problem_with_its_line(tag: str) -> None:
    """`!!bool "abc"` and `!!int "-"` ended lint and migrate with a traceback of the YAML library."""
    for text in TEXTS:
        tagged = f"!!{tag} {text}" if tag else text
        for written in (f"value: {tagged}", f"- {tagged}", f"? {tagged}\n    : x"):
            read = read_text(f"{HEAD}a:\n  b:\n    {written}\n")
            if read.broken is None:
                json.dumps(read.manifests, ensure_ascii=False).encode()
            else:
                assert read.broken.line in (1, 5, 6) and "\n" not in read.broken.why, (written, read.broken)
            lint_text(f"{HEAD}{written}\n")


PIECES = (
    *(f"!!{tag} " for tag in TAGS), *TEXTS, ": ", "- ", "? ", "\n", "\n  ", "\n    ", "&a ", "*a", "<<: *a", "{", "}", "[", "]",
    ",", "|\n", ">\n", "|9\n", "# x\n", "---\n", "...\n", "%YAML 1.1\n", "%YAML 9" + "9" * 30 + ".1\n", "%TAG ! x\n", "!<x> ",
    "! ", "!%zz ", '"\\x', "\t", "'", '"', "\u2028", "\x85", "kind: Rollout", "items:", "kind: List\n", "apiVersion: v1\n", "@",
    "`",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("kind: aList\nitems: [1, &a [*a]]\n")
def test_no_text_ends_the_reader_with_another_error_than_its_own(text: str) -> None:
    """`read_text` raises nothing, whatever the scanner, the composer and the constructors of the YAML library do."""
    read = read_text(text)

    assert (
        read.broken is None or 1 <= read.broken.line <= text.count("\n") + text.count("\x85") + text.count("\u2028") + 2
    )
    json.dumps(read.manifests, ensure_ascii=False).encode()
    lint_text(text)


@pytest.mark.parametrize("command", [["rbac"], ["migrate"], ["gitops"], ["diff"], ["analyze", "--dry-run"]])
def test_no_command_takes_the_first_half_of_a_broken_file(typed: CommandLine, command: list[str]) -> None:
    """Roles for half of the Secrets, or a diff without the second Rollout, would look complete."""
    file = typed.file(cart(), "a: [\n")

    said = typed(*command, "-f", file, code=None)
    assert said.code in (1, 2)
    assert f"{file}:" in said.err and "YAML: expected the node content" in said.err and not said.out


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"annotations": {"rollouts.dev/pause": True}},
         "metadata.annotations.rollouts.dev/pause: must be a text, not true; put it in quotes"),
        ({"labels": {"tier": 1}}, "metadata.labels.tier: must be a text, not a number; put it in quotes"),
        ({"labels": {"tier": "a b"}}, "metadata.labels.tier: a value is at most 63 letters"),
        ({"labels": {"bad key": "x"}}, "metadata.labels.bad key: a key is at most 63 letters"),
        ({"annotations": {"é": "x"}}, "metadata.annotations.é: a key is at most 63 letters"),
        ({"name": "Cart_1"}, "metadata.name: a name is lower-case letters"),
        ({"name": None}, "metadata.name: a name is required"),
        ({"name": 12}, "metadata.name: must be a text, not a number; put it in quotes"),
        ({"namespace": "My Shop"}, "metadata.namespace: a namespace is lower-case letters"),
        ({"anotations": {}}, "metadata.anotations: is unknown to Kubernetes 1.36; did you mean annotations?"),
    ],
)  # fmt: skip
def test_metadata_that_the_api_server_refuses_is_a_problem(metadata: Manifest, words: str) -> None:
    """`rollouts.dev/pause: true` without quotes is how most people write it first, and the API server refuses the object."""
    (problem,) = lint_text(yaml.safe_dump({**cart(), "metadata": {"name": "cart", **metadata}})).problems

    assert problem.message.startswith(words)


def test_metadata_that_the_api_server_takes_is_none() -> None:
    """Names of 253 characters, unicode in annotations, capitals in the DNS name of an annotation, and labels without a value."""
    metadata: Manifest = {
        "name": ".".join(["a" * 60] * 4),
        "namespace": "a" * 63,
        "labels": {"app.kubernetes.io/name": "", "tier": "A_b.c"},
        "annotations": {"note": "größer 🚀\n", "Example.com/x": "true"},
        "creationTimestamp": None,
        "finalizers": [],
    }

    assert not lint_text(yaml.safe_dump({**cart(), "metadata": metadata})).problems
