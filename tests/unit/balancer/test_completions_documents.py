"""docs/completions.md and docs/complete.md name every field with the default and the meaning that the code has."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from balancer.complete_dialect import CompleteBody
from balancer.completions_body import CompletionBody

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize(("document", "model"), [("completions.md", CompletionBody), ("complete.md", CompleteBody)])
def test_the_table_of_fields_is_the_codes(document: str, model: type[BaseModel]) -> None:
    lines = (DOCS / document).read_text(encoding="utf-8").splitlines()
    start = lines.index("| field | takes | default | |") + 2
    rows = [[cell.strip() for cell in line.split(" | ")] for line in lines[start : start + len(model.model_fields) + 1]]
    assert rows.pop() == [""], "the table ends after the last field"
    expected = []
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else f"`{json.dumps(field.default)}`"
        expected.append((f"| `{name}`", default, f"{field.description} |"))
    assert [(row[0], row[2], row[3]) for row in rows] == expected
