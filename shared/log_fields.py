"""What a log record says beside its sentence, under fixed names: `log.info("...", extra=fields(request_id=...))`.

docs/logs.md lists the names. In a line for people they follow the sentence; None, empty and what the sentence has said
already (the request's id) are left out there. JSON has all of them.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

FIELDS: Final = "steersman_fields"
"""The attribute of a record."""

_SAID: Final = frozenset({"event", "request_id"})


def fields(**values: Any) -> dict[str, Any]:
    """For the `extra` of a log call."""
    return {FIELDS: values}


def words_of_fields(values: Mapping[str, Any]) -> str:
    """The fields as they follow a sentence, each with a space before it."""
    return "".join(
        f" {name}={_word(value)}"
        for name, value in values.items()
        if name not in _SAID and value is not None and value != []
    )


def _word(value: Any) -> str:
    if isinstance(value, list):
        return _word(",".join(map(str, value)))
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    # Quoted where a reader could not tell where it ends.
    return json.dumps(text, ensure_ascii=False) if not text or any(one in text for one in ' "=') else text
