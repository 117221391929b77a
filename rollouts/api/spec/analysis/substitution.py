"""`{{args.name}}` in the JSON of one metric: what is put in, and where a secret may stand.

Queries, conditions, URLs, JSON and scripts take a value as their grammar allows, so that it stays one value. Other texts take it
as it is: there is nothing around it whose meaning it could change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rollouts.api.problems import Problems, path_of
from rollouts.api.spec.analysis.arguments import ArgumentValues
from rollouts.api.v1alpha1.metric_servers import SERVER_MODELS
from rollouts.api.v1alpha1.wire import attributes_of
from rollouts.core.analysis.metric import SecretReference
from rollouts.core.analysis.recipe import ADDRESS, fields_of_servers, fields_with
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.filled_texts import (
    filled_body,
    filled_condition,
    filled_json_path,
    filled_script,
    filled_url,
    filled_words,
)
from rollouts.core.placeholders import UNCLOSED, Refuse, ValueOf, filled, is_unclosed
from rollouts.core.promql import filled_query

SIZE_MAX = 131_072
"""Characters of all texts of the metrics of a run or a template, with the arguments put in."""

_PREFIX = "args."
_QUERIES_OF_ARMS = frozenset({("provider", "compare", "of", "prometheus", "query"), ("provider", "compare", "total")})
_QUERIES = frozenset({("provider", "prometheus", "query")}) | _QUERIES_OF_ARMS
OF_ARMS = frozenset({"arm", "window", "seconds"})
"""Places in queries of comparisons that get their values with each look."""

_EXPRESSIONS = frozenset(
    {
        ("successCondition",),
        ("failureCondition",),
        ("provider", "prometheus", "rangeQuery", "start"),
        ("provider", "prometheus", "rangeQuery", "end"),
    }
)

_CODE = re.compile(r"-[A-Za-z]*c")
"""Says to a shell, or to another program, that the next argument is commands: `sh -ec`, `python -c`."""

Location = tuple[str | int, ...]


@dataclass(slots=True)
class Substitution:
    """Puts arguments into one metric.

    Args:
        root: where the metric stands, such as `spec.metrics[0]`.
        complete: whether every argument must have a value by now; if not, places without one stay.
        size: characters of the metrics before this one.
    """

    arguments: ArgumentValues
    root: str
    problems: Problems
    complete: bool
    size: int = 0
    secrets: dict[str, SecretReference] = field(default_factory=dict)
    scripted: set[Location] = field(default_factory=set)

    def metric(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """A metric with the arguments put in; the metric itself when it has no place for one."""
        text = json.dumps(raw, ensure_ascii=False)
        if "{{" not in text:
            self.size += len(text)
            return raw
        filled: Mapping[str, Any] = self.value(raw)
        return filled

    def value(self, part: Any, location: Location = ()) -> Any:
        """A copy of the JSON with the arguments put in."""
        match part:
            case dict():
                # A container that is given a script.
                lists = [part.get(name) for name in ("command", "args")]
                words = [word for given in lists if isinstance(given, list) for word in given]
                if any(isinstance(word, str) and _CODE.fullmatch(word) for word in words):
                    self.scripted.add(location)
                return self._fields(part, location)
            case list():
                return [self.value(item, (*location, index)) for index, item in enumerate(part)]
            case str():
                return self.text(part, location)
            case _:
                return part

    def _fields(self, part: Mapping[str, Any], location: Location) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, value in part.items():
            filled_name = self.text(name, (*location, name), key=True)
            if filled_name in fields or (filled_name != name and filled_name in part):
                self.problems.add(
                    path_of((*location, name), root=self.root), f"{filled_name[:40]!r} stands there twice"
                )
            fields[filled_name] = self.value(value, (*location, name))
        return fields

    def text(self, text: str, location: Location, *, key: bool = False) -> str:
        """One text of it, which may be the name of a field."""
        if "{{" not in text:
            self.size += len(text)
            return text
        if self.size > SIZE_MAX:
            return text
        path = path_of(location, root=self.root)
        if is_unclosed(text):
            self.problems.add(path, UNCLOSED)

        def value_of(name: str) -> str | None:
            if name in OF_ARMS and _is_of_arms(location):
                return None
            return self._value_of(name, path, secret_allowed=not key and _may_be_secret(location))

        def refuse(name: str, why: str) -> None:
            self.problems.add(path, f"{name} {why}")

        return filled(text, value_of) if key else self._filled_at(location)(text, value_of, refuse)

    def _filled_at(self, location: Location) -> Callable[[str, ValueOf, Refuse], str]:
        """How values are put in there."""
        if location in _QUERIES:
            return filled_query
        if location in _EXPRESSIONS:
            return filled_condition
        match location:
            case ("provider", "compare", "of", *inner):
                return self._filled_at(("provider", *inner))
            case (
                ("provider", "prometheus", "address")
                | ("provider", "web", "url")
                | ("provider", "prometheus" | "web", "authentication", "oauth2", "tokenUrl")
            ):
                return filled_url
            case ("provider", str(name), *inner) if (recipe := RECIPES.get(name)) is not None:
                is_address = bool(inner) and inner[0] in fields_with(ADDRESS, recipe.fields)
                return filled_url if is_address else filled_words
            case ("provider", "web", "body"):
                return filled_body
            case ("provider", "web", "jsonPath"):
                return filled_json_path
            case ("provider", "job", *_, "command" | "args", int()) if location[:-2] in self.scripted:
                return filled_script
            case _:
                return lambda text, value_of, _refuse: filled(text, value_of)

    def _value_of(self, name: str, path: str, *, secret_allowed: bool) -> str | None:
        argument = name.removeprefix(_PREFIX)
        if argument == name:
            self.problems.add(path, f"has {{{{{name[:40]}}}}}, which is no argument: those are {{{{args.NAME}}}}")
            return None
        if (value := self.arguments.values.get(argument)) is not None:
            self.size += len(value)
            return value if self.size <= SIZE_MAX else None
        secret = self.arguments.secrets.get(argument)
        if secret is None:
            if self.complete:
                self.problems.add(path, f"uses {{{{{name[:40]}}}}}, which has no value")
        elif secret_allowed:
            self.secrets[argument] = secret
        else:
            message = "may stand in headers, authentication, and the URL and body of a web request alone"
            self.problems.add(path, f"uses {{{{{name[:40]}}}}}, which is a secret; it {message}")
        return None


def _is_of_arms(location: Location) -> bool:
    """Whether each look of a comparison puts its own values in here."""
    match location:
        case (
            ("provider", "compare", "of", "web", "url" | "body")
            | ("provider", "compare", "of", "web", "jsonBody", *_)
            | ("provider", "compare", "of", "web", "headers", _, "value")
            | ("provider", "compare", "of", "customMetric" | "externalMetric", "metric", *_)
            | ("provider", "compare", "of", "customMetric", "describedObject", "name")
        ):
            return True
        case ("provider", "compare", "of", str(name), str(field), *_) if name in RECIPES:
            return attributes_of(SERVER_MODELS[name]).get(field) not in fields_of_servers(RECIPES[name].fields)
        case _:
            return location in _QUERIES_OF_ARMS


def _may_be_secret(location: Location) -> bool:
    match location:
        case ("provider", "compare", "of", *inner):
            return _may_be_secret(("provider", *inner))
        case (
            ("provider", "web", "url" | "body")
            | ("provider", "web", "jsonBody" | "authentication", *_)
            | ("provider", "prometheus", "authentication", *_)
            | ("provider", "prometheus" | "web", "headers", _, "value")
        ):
            return True
        case _:
            return False
