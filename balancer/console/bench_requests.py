"""What a bench asks and how it reads the answers, for each of the three APIs. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from balancer.console.settings import Api, BenchSettings
from balancer.console.text import clipped, printable

_WORDS: Final = "the a of to and in is it you that he was for on are with as his they be at one have this".split()
_FIRST_ID: Final = 200  # above bytes and control tokens of most vocabularies, and below the size of all
_IDS: Final = 400
_MOST_REASON_COLUMNS: Final = 90
DONE: Final = "[DONE]"


@dataclass(frozen=True, slots=True)
class Piece:
    """What one document of a stream says. `tokens`: None when it does not count them; `failure`: why it ends badly."""

    has_text: bool = False
    is_end: bool = False
    tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class BenchApi:
    """`body`: of a request, from the settings, its number and the model. `read`: of one document of its stream."""

    path: str
    needs_model: bool
    body: Callable[[BenchSettings, int, str], dict[str, Any]]
    read: Callable[[Any], Piece]


def prompt_text(number: int, tokens: int) -> str:
    """About that many tokens, since each word is one in most vocabularies; the beginning is different for each."""
    words = [str(number), *(_WORDS[(number + at) % len(_WORDS)] for at in range(tokens))]
    return " ".join(words[: max(tokens, 1)])


def prompt_ids(number: int, tokens: int) -> list[int]:
    """That many, two of which tell the requests of a bench apart."""
    digits = [number % _IDS, number // _IDS % _IDS]
    return [_FIRST_ID + id_ for id_ in [*digits, *((number + at) % _IDS for at in range(tokens))][:tokens]]


def reason(status: int, text: str) -> str:
    """A kind of failure: short, the same for the same cause."""
    said = " ".join(printable(text.replace("\n", " ")).split())
    return clipped(f"{status} {said}".strip(), _MOST_REASON_COLUMNS)


def _raw_prompt_body(settings: BenchSettings, number: int, _: str) -> dict[str, Any]:
    prompt = prompt_text(number, settings.prompt_tokens)
    return {"raw_prompt": prompt, "max_tokens": settings.max_tokens, "sampling": {"ignore_eos": True}}


def _read_raw_prompt(document: Any) -> Piece:
    if "Error" in document:
        error = document["Error"]["error"]
        return Piece(is_end=True, failure=reason(int(error["code"]), str(error["description"])))
    ((variant, data),) = document["Response"]["response"]["GeneratedToken"].items()
    if variant == "Done":
        usage = data["usage"]
        kinds = ("content_tokens", "reasoning_tokens", "tool_call_tokens", "undeterminable_tokens")
        return Piece(
            is_end=True,
            tokens=sum(int(usage[kind]) for kind in kinds),
            prompt_tokens=int(usage["prompt_tokens"]),
            cached_tokens=int(usage["cached_prompt_tokens"]),
        )
    if variant.endswith("Token"):
        return Piece(has_text=True)
    return Piece(is_end=True, failure=clipped(printable(f"{variant}: {data}"), _MOST_REASON_COLUMNS))


def _completions_body(settings: BenchSettings, number: int, model: str) -> dict[str, Any]:
    return {
        "model": model,
        "prompt": prompt_ids(number, settings.prompt_tokens),
        "max_tokens": settings.max_tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _read_completions(document: Any) -> Piece:
    if document == DONE:
        return Piece(is_end=True)
    if "error" in document:
        return Piece(is_end=True, failure=reason(int(document["code"]), str(document["message"])))
    usage = document.get("usage")
    if usage is not None:
        return Piece(
            tokens=int(usage["completion_tokens"]),
            prompt_tokens=int(usage["prompt_tokens"]),
            cached_tokens=int(usage["prompt_tokens_details"]["cached_tokens"]),
        )
    return Piece(has_text=any(choice["text"] for choice in document["choices"]))


def _complete_body(settings: BenchSettings, number: int, model: str) -> dict[str, Any]:
    prompt = prompt_text(number, settings.prompt_tokens)
    return {"model": model, "prompt": prompt, "max_tokens_to_sample": settings.max_tokens, "stream": True}


def _read_complete(document: Any) -> Piece:
    if document == DONE:
        return Piece(is_end=True)
    if "error" in document:
        error = document["error"]
        return Piece(
            is_end=True, failure=clipped(printable(f"{document.get('code', '')} {error}".strip()), _MOST_REASON_COLUMNS)
        )
    return Piece(has_text=bool(document["completion"]))


APIS: Final[Mapping[Api, BenchApi]] = {
    "raw-prompt": BenchApi("/api/v1/continue_from_raw_prompt", False, _raw_prompt_body, _read_raw_prompt),
    "completions": BenchApi("/v1/completions", True, _completions_body, _read_completions),
    "complete": BenchApi("/v1/complete", True, _complete_body, _read_complete),
}
