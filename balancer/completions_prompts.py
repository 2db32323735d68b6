"""The `prompt` of `/v1/completions`: token ids, or a batch of them; text only where the operator lets it in.

Pure. Told apart by type before anything is built: `true` is no token id, and a batch is of one kind throughout.
"""

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from shared.desired_state import INT32_MAX


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """At least one token id. `packed`: little-endian int32."""

    packed: bytes
    largest_id: int

    @property
    def count(self) -> int:
        """How many tokens."""
        return len(self.packed) // TOKEN_BYTES


Prompt = TokenPrompt | str
"""Token ids, or text."""

TOKEN_BYTES: Final = 4
_SHAPES: Final = "must be a non-empty list of token ids, or a non-empty list of such lists"


def pack(token_ids: Sequence[int]) -> bytes:
    """Little-endian int32 per token."""
    packed = array("i", token_ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(packed: bytes) -> list[int]:
    """The inverse of `pack`."""
    token_ids = array("i", packed)
    if sys.byteorder == "big":
        token_ids.byteswap()
    return token_ids.tolist()


def _prompts(value: Any) -> tuple[Prompt, ...]:
    """A tuple of at least one prompt, each with at least one token id (or a text). Raises PydanticCustomError."""
    if isinstance(value, tuple):
        return value  # parsed before
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not value:
        raise _fault(_SHAPES)
    if isinstance(value[0], list):
        return tuple(_packed(inner, f"entry {index}") for index, inner in enumerate(value))
    if isinstance(value[0], str):
        if not all(isinstance(inner, str) for inner in value):
            raise _fault("must not mix texts and token ids")
        return tuple(value)
    return (_packed(value, None),)


def _packed(token_ids: Any, place: str | None) -> TokenPrompt:
    where = "" if place is None else f"{place} "
    if not isinstance(token_ids, list):
        raise _fault(f"must not mix lists and token ids; {where}is no list")
    if not token_ids:
        raise _fault(f"{where}must not be empty")
    if set(map(type, token_ids)) != {int}:  # a bool is no int here
        index = next(index for index, one in enumerate(token_ids) if type(one) is not int)
        raise _fault(f"{where}must hold token ids only: the one at index {index} is no integer")
    largest_id = max(token_ids)
    if min(token_ids) < 0 or largest_id > INT32_MAX:
        index = next(index for index, one in enumerate(token_ids) if not 0 <= one <= INT32_MAX)
        raise _fault(f"{where}must hold token ids only: the one at index {index} is negative or over {INT32_MAX}")
    return TokenPrompt(pack(token_ids), largest_id)


def _fault(words: str) -> PydanticCustomError:
    # The words are ours and hold no braces, so nothing in them is taken for a placeholder.
    return PydanticCustomError("prompt", words)


_TokenIds = Annotated[list[Annotated[int, Field(ge=0, le=INT32_MAX)]], Field(min_length=1)]
_Shapes = _TokenIds | Annotated[list[_TokenIds], Field(min_length=1)] | str | Annotated[list[str], Field(min_length=1)]

Prompts = Annotated[tuple[Prompt, ...], PlainValidator(_prompts, json_schema_input_type=_Shapes)]
