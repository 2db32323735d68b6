"""What is wrong with a document, in words: one sentence per fault, beginning with the field it is about.

`inference_parameters.n_batch: must be at least 1`. Values from the client are never repeated; the names of its
unknown fields are, shortened, since the sentence would be useless without them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from shared.desired_state import WHOLE_SENTENCE

MAX_SENTENCES = 20
MAX_NAME_CHARACTERS = 64

_SENTENCES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda _: "is required",
    "extra_forbidden": lambda _: "is not a known field",
    "greater_than": lambda limits: f"must be greater than {_number(limits['gt'])}",
    "greater_than_equal": lambda limits: f"must be at least {_number(limits['ge'])}",
    "less_than": lambda limits: f"must be less than {_number(limits['lt'])}",
    "less_than_equal": lambda limits: f"must be at most {_number(limits['le'])}",
    "int_type": lambda _: "must be an integer",
    "int_parsing_size": lambda _: "is too large",
    "float_type": lambda _: "must be a number",
    "finite_number": lambda _: "must be a finite number",
    "bool_type": lambda _: "must be true or false",
    "string_type": lambda _: "must be a string",
    "string_too_short": lambda limits: _at_least_characters(limits["min_length"]),
    "string_too_long": lambda limits: f"must have at most {limits['max_length']} characters",
    "too_long": lambda limits: f"must have at most {limits['max_length']} entries",
    "too_short": lambda limits: f"must have at least {limits['min_length']} entries",
    "enum": lambda limits: f"must be one of {limits['expected']}",
    "literal_error": lambda limits: f"must be one of {limits['expected']}",
    "list_type": lambda _: "must be a list",
    "dict_type": lambda _: "must be an object",
    "model_type": lambda _: "must be an object",
    "model_attributes_type": lambda _: "must be an object",
    "json_invalid": lambda problem: f"the body is not valid JSON: {problem['error']}",
}


def fault_sentences(error: ValidationError) -> list[str]:
    """One sentence per fault, in the order of the document's fields; at most MAX_SENTENCES and one that counts the
    rest."""
    faults = error.errors(include_url=False, include_input=False)
    sentences = [_sentence(fault["type"], fault["loc"], fault) for fault in faults[:MAX_SENTENCES]]
    if len(faults) > MAX_SENTENCES:
        sentences.append(f"and {len(faults) - MAX_SENTENCES} more faults")
    return sentences


def _sentence(kind: str, location: tuple[int | str, ...], fault: Mapping[str, Any]) -> str:
    if kind == WHOLE_SENTENCE:
        return str(fault["msg"])
    wording = _SENTENCES.get(kind)
    words = wording(fault.get("ctx", {})) if wording is not None else str(fault["msg"])
    path = _path(location)
    if path:
        return f"{path}: {words}"
    return f"the document {words}" if words.startswith("must") else words


def _path(location: tuple[int | str, ...]) -> str:
    """`inference_parameters.n_batch`. A union's tag has the name of the key that follows it, and is said once."""
    parts: list[str] = []
    for part in location:
        name = _shown(part)
        if not parts or parts[-1] != name:
            parts.append(name)
    return ".".join(parts)


def _shown(part: int | str) -> str:
    text = str(part)
    short = text if len(text) <= MAX_NAME_CHARACTERS else text[:MAX_NAME_CHARACTERS] + "..."
    return "".join(character if character.isprintable() else "?" for character in short)


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _at_least_characters(count: int) -> str:
    return "must not be empty" if count == 1 else f"must have at least {count} characters"
