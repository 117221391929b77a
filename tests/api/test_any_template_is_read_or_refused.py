"""Promise: whatever stands in a template or in a run, reading it ends with a value or with a list of problems."""

from __future__ import annotations

import copy

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rollouts.api.spec.analysis.run import parse_run, parse_template
from rollouts.errors import SpecInvalid
from tests.api.analysis_specs import GOOD
from tests.api.specs import Spec, places, put

AWKWARD = st.sampled_from(
    [
        "", "{{", "}}", "{{}}", "{{args.}}", "{{args.x}}", "{{ args.service-name }}", "{{args.api-token}}", "\ud800",
        "\x00", "-1", "1e999", "9" * 40, "5m", "-5m", "1h-1m", "{{args.n}}m", "(", "[", "*", "$", "NaN", "x" * 5000,
        "é", "\n",
    ]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | AWKWARD | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(AWKWARD | st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


@st.composite
def changed_specs(draw: st.DrawFn) -> Spec:
    """A good template with up to three values replaced."""
    spec = copy.deepcopy(GOOD[draw(st.sampled_from(sorted(GOOD)))])
    for _ in range(draw(st.integers(min_value=1, max_value=3))):
        if found := places(spec):
            put(spec, draw(st.sampled_from(found)), draw(JSON))
    return spec


@settings(max_examples=400, deadline=None)
@given(spec=changed_specs())
@example(spec={"metrics": [{"name": "m", "provider": {"cloudWatch": "{{"}}]})
def test_a_changed_template_is_read_or_refused(spec: Spec) -> None:
    """A tenant's object must not end a pass in another way."""
    for read in (parse_template, parse_run):
        try:
            read(spec)
        except SpecInvalid as invalid:
            assert invalid.problems
            assert all(problem.path.startswith("spec") and problem.message for problem in invalid.problems)
