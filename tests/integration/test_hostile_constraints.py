"""No constraint crashes the process that compiles it, keeps anybody waiting, or takes more than 100 MB.

Cases C01 and others of their kind: 60,000 nested groups, counts of 20 digits, chains of references that overflow the
library's stack, huge enums, catastrophic patterns, NUL bytes, half surrogate pairs. In a child process: should it die,
the test says so.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent.constraint.limits import ConstraintLimits
from tests.support.hostile_constraints import constraints

pytestmark = pytest.mark.model

SLACK_SECONDS = 3.0  # two cores that others use too
MOST_MEGABYTES = 100.0
CHILD_SECONDS = 50.0
# Whoever writes these means something that can be had; they may be refused or enforced, fast.
MAY_COMPILE = {
    "schema, enum of 10,000 words",
    "schema, pattern that backtracks",
    "schema, items beyond counting",
    "schema, lengths beyond counting",
    "schema, 2,000 optional properties",
    "schema, objects through 1,000 references",
    "regex, nested counts",
    "regex, nested counts of words",
    "regex, catastrophic",
    "ebnf, ambiguous",
    "ebnf, doubling",
}


def test_hostile_constraints_are_refused_or_enforced_fast_and_small() -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.support.hostile_constraints"],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=CHILD_SECONDS,
        check=False,
    )
    outcomes = [json.loads(line) for line in child.stdout.splitlines()]
    names = [outcome["name"] for outcome in outcomes]
    assert child.returncode == 0, f"it ended with {child.returncode} after {names[-1:]}: {child.stderr[-2000:]}"
    assert names == list(constraints())
    most_seconds = ConstraintLimits().answer_seconds + SLACK_SECONDS
    slow = [(outcome["name"], outcome["seconds"]) for outcome in outcomes if outcome["seconds"] > most_seconds]
    assert slow == []
    large = [(outcome["name"], outcome["megabytes"]) for outcome in outcomes if outcome["megabytes"] > MOST_MEGABYTES]
    assert large == []
    compiled = {outcome["name"] for outcome in outcomes if outcome["refused"] is None}
    assert compiled <= MAY_COMPILE
