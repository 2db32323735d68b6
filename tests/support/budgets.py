"""Reads tests/budgets.toml: how long tests may take, and how much those that can go on for ever do."""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).resolve().parents[1] / "budgets.toml"

# Set to `long` by `make test-long` and `make soak`.
FORM_VARIABLE = "STEERSMAN_TESTS"


@dataclass(frozen=True, slots=True)
class Budgets:
    """`form` is `short` or `long`; the per-folder tables are keyed by the folder's name under tests/."""

    form: str
    hypothesis_examples: int
    soak_seconds: float
    seconds_per_test: dict[str, float]
    seconds_per_folder: dict[str, float]

    def test_limit_seconds(self, folder: str) -> float:
        """The long form of a test may take what its soak takes on top of its own limit."""
        extra = self.soak_seconds if folder == "scenario" or self.form == "long" else 0.0
        return self.seconds_per_test[folder] + extra


def current() -> Budgets:
    """The budgets of the form that this run was started for. Raises ValueError when the form is unknown."""
    form = os.environ.get(FORM_VARIABLE, "short")
    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    if form not in ("short", "long"):
        raise ValueError(f"{FORM_VARIABLE} is {form!r}; it is short or long")
    return Budgets(
        form=form,
        hypothesis_examples=tables[form]["hypothesis_examples"],
        soak_seconds=tables[form]["soak_seconds"],
        seconds_per_test=tables["seconds_per_test"],
        seconds_per_folder=tables["seconds_per_folder"],
    )
