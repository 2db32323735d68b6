"""What other APIs call the fields of ours, for whoever sends one of their names: `FOREIGN_WORDS` of the bodies. Pure.

Each value stands behind `is not a known field`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

_LENGTHS: Final = frozenset(
    {"max_tokens", "max_completion_tokens", "max_new_tokens", "max_tokens_to_sample", "n_predict"}
)


def _all_called(name: str, theirs: Iterable[str]) -> dict[str, str]:
    return {one: f'it is called "{name}" here' for one in theirs if one != name}


_GRAMMARS: Final = ("gbnf", "ebnf", "regex", "json_schema", "structural_tag")
RAW_PROMPT: Final[Mapping[str, str]] = {
    **_all_called("max_tokens", _LENGTHS),
    **_all_called("raw_prompt", ("prompt", "text", "input")),
    **{one: f'it is a type of "grammar": {{"grammar": {{"type": "{one}", ...}}}}' for one in _GRAMMARS},
    "response_format": 'it is called "grammar" here',
    "stop_sequences": 'it is called "stop" here, and stands in "sampling"',
    "messages": 'there is no chat here; put one text into "raw_prompt"',
    "model": "there is one model; leave it out",
    "stream": "the answer is always a stream; leave it out",
}
"""Of `/api/v1/continue_from_raw_prompt`."""

COMPLETIONS: Final[Mapping[str, str]] = {
    **_all_called("max_tokens", _LENGTHS),
    **_all_called("prompt", ("raw_prompt", "input_ids", "prompt_token_ids", "input")),
    **_all_called("stop", ("stop_sequences",)),
    **_all_called("json_schema", ("guided_json",)),
    **_all_called("regex", ("guided_regex",)),
    **_all_called("ebnf", ("guided_grammar",)),
    "grammar": 'name its language: "ebnf", "regex", "json_schema" or "structural_tag"',
    "messages": 'there is no chat here; put token ids into "prompt"',
    "sampling": 'its fields stand beside "prompt"',
    "sampling_params": 'its fields stand beside "prompt"',
}
"""Of `/v1/completions`."""

COMPLETE: Final[Mapping[str, str]] = {
    **_all_called("max_tokens_to_sample", _LENGTHS),
    **_all_called("prompt", ("raw_prompt", "text", "input")),
    **_all_called("stop_sequences", ("stop",)),
    "messages": 'there is no chat here; put one text into "prompt"',
    "user": 'put it into "metadata", as "user_id"',
}
"""Of `/v1/complete`."""
