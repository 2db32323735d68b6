"""docs/failures.md names every failure kind, with the status and the words that each route has for it."""

from pathlib import Path

import pytest

from balancer.compat_errors import CompatError, anthropic_status
from balancer.http_failures import row_of, text_of
from shared.failures import Failure, FailureKind

PAGE = Path(__file__).resolve().parents[3] / "docs" / "failures.md"


def rows_under(heading: str) -> dict[str, list[str]]:
    """The cells behind the first one of each row of the table under a heading."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows}


def told_of(kind: FailureKind) -> list[str]:
    row = row_of(kind)
    native = f"`{row.native_variant}`" if row.native_variant else f"`Error` {row.status}"
    statuses = [row.status, row.status, anthropic_status(CompatError(row.status, ""))]
    words = text_of(Failure(kind, "its own sentence"), item_timeout_seconds=30.0)
    return [native, *map(str, statuses), words]


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_kind_has_the_statuses_and_words_of_the_code(kind: FailureKind) -> None:
    assert rows_under("Every kind, on every route").get(kind.value) == told_of(kind)


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_kind_says_what_client_and_operator_should_do(kind: FailureKind) -> None:
    cells = rows_under("What to do").get(kind.value, [])
    assert len(cells) == 3, cells
    assert all(cells), cells


def test_no_other_kind_is_named() -> None:
    known = {kind.value for kind in FailureKind}
    assert set(rows_under("Every kind, on every route")) == set(rows_under("What to do")) == known
