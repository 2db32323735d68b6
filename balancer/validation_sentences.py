"""What is wrong with a document, in words: one sentence per fault, beginning with the field it is about.

`inference_parameters.n_batch: must be at least 1`. Values from the client are never repeated; the names of its
unknown fields are, shortened, since the sentence would be useless without them.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from balancer.field_hints import field_hint
from shared.desired_state import WHOLE_SENTENCE
from shared.fault_words import fault_words

MAX_SENTENCES = 20
UNION_TAG = "is:"
"""How the tags of our unions begin: pydantic puts them into the place of a fault, where no client wrote them."""
MAX_NAME_CHARACTERS = 64


def fault_sentences(error: ValidationError, model: type[BaseModel] | None = None) -> list[str]:
    """One sentence per fault, in the order of the document's fields, but for those that explain why another is missing:
    they come first. At most MAX_SENTENCES and one that counts the rest. `model`: whose fields an unknown one may have
    meant."""
    faults = error.errors(include_url=False, include_input=False)
    if model is not None:
        faults = _explanations_first(faults, model)
    sentences = [_sentence(fault["type"], fault["loc"], fault, model) for fault in faults[:MAX_SENTENCES]]
    if len(faults) > MAX_SENTENCES:
        sentences.append(f"and {len(faults) - MAX_SENTENCES} more faults")
    return sentences


def first_fault(error: ValidationError) -> tuple[str | None, str]:
    """The top-level field of the first fault (None: the document as a whole) and pydantic's word for the fault."""
    fault = error.errors(include_url=False, include_input=False)[0]
    return (_shown(fault["loc"][0]) if fault["loc"] else None), fault["type"]


def _explanations_first(faults: list[ErrorDetails], model: type[BaseModel]) -> list[ErrorDetails]:
    """Unknown fields that are a missing one by another name go before all others; of many, the first are looked at."""
    missing = {fault["loc"] for fault in faults if fault["type"] == "missing"}
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"][:MAX_SENTENCES] if missing else []
    places = {fault["loc"] for fault in unknown if _explains_one(fault["loc"], missing, model)}
    return sorted(faults, key=lambda fault: fault["type"] != "extra_forbidden" or fault["loc"] not in places)


def _explains_one(location: tuple[int | str, ...], missing: set[tuple[int | str, ...]], model: type[BaseModel]) -> bool:
    hint = field_hint(model, location) or ""
    return any(f'"{one[-1]}"' in hint for one in missing if one[:-1] == location[:-1])


def _sentence(
    kind: str, location: tuple[int | str, ...], fault: Mapping[str, Any], model: type[BaseModel] | None
) -> str:
    if kind == WHOLE_SENTENCE:
        return str(fault["msg"])
    words = fault_words(kind, fault.get("ctx", {})) or str(fault["msg"])
    if kind == "extra_forbidden" and model is not None:
        hint = field_hint(model, location)
        words += f"; {hint}" if hint else ""
    path = _path(location)
    if path:
        return f"{path}: {words}"
    return f"the document {words}" if words.startswith("must") else words


def _path(location: tuple[int | str, ...]) -> str:
    """`inference_parameters.n_batch`. A union's tag has the name of the key that follows it, and is said once."""
    parts: list[str] = []
    for part in location:
        name = _shown(part)
        if not name.startswith(UNION_TAG) and (not parts or parts[-1] != name):
            parts.append(name)
    return ".".join(parts)


def _shown(part: int | str) -> str:
    text = str(part)
    short = text if len(text) <= MAX_NAME_CHARACTERS else text[:MAX_NAME_CHARACTERS] + "..."
    return "".join(character if character.isprintable() else "?" for character in short)
