"""From a message to the token ids that the engine evaluates, or to the reason why it will not. Blocks: tokenising a
prompt of several megabytes takes seconds."""

import sys
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from agent.core.text_assembly import TextAssembler
from agent.model_port import PromptReader
from shared.failures import Failure, FailureKind
from shared.generation_options import StopOptions
from shared.messages_to_agent import Generate

_TOKEN_BYTES = 4


def prepare_prompt(message: Generate, reader: PromptReader, request_limit_tokens: int) -> tuple[int, ...] | Failure:
    """The prompt's token ids, at least 1 and fewer than `request_limit_tokens`; or a failure that is the request's own.

    BOS: a text gets one when the model's metadata asks for it, unless it begins with it already (people bring their
    own template). Token ids are used as they are given.
    """
    if (message.raw_prompt is None) == (message.prompt_token_ids is None):
        return Failure(FailureKind.INVALID_REQUEST, "exactly one of a text and token ids is needed as the prompt")
    try:
        if message.raw_prompt is not None:
            tokens, parameter = _from_text(message, message.raw_prompt, reader), "raw_prompt"
        else:
            tokens, parameter = _from_packed(message.prompt_token_ids or b"", reader.size), "prompt"
    except ValueError as error:
        return Failure(FailureKind.INVALID_REQUEST, str(error), "prompt")
    return _check_length(tokens, parameter, request_limit_tokens)


class EchoedPrompt(NamedTuple):
    """A prompt's text as `echo` shows it; `rest`: the beginning of a character that the answer may complete."""

    text: str = ""
    rest: bytes = b""


NO_ECHO = EchoedPrompt()


def prompt_text(tokens: Sequence[int], reader: PromptReader, stop: StopOptions | None = None) -> EchoedPrompt:
    """The token ids as text; special tokens in it as `stop` has them in the answer."""
    assembler = TextAssembler()
    text = assembler.push(
        reader.detokenize(
            tokens,
            shows_special=stop is not None and not stop.skips_special_tokens,
            spaces_special=stop is not None and stop.spaces_between_special_tokens,
        )
    )
    return EchoedPrompt(text, assembler.pending_bytes)


def _from_text(message: Generate, text: str, reader: PromptReader) -> tuple[int, ...]:
    tokens = reader.tokenize(text, parse_special=message.parses_special)
    bos = reader.bos_token
    if reader.adds_bos and bos is not None and tokens[:1] != [bos]:
        tokens.insert(0, bos)
    return tuple(tokens)


def _from_packed(packed: bytes, vocabulary_size: int) -> tuple[int, ...]:
    """Little-endian int32 per token. Raises ValueError for a piece of a token and for ids outside the vocabulary."""
    if len(packed) % _TOKEN_BYTES:
        raise ValueError("the prompt's token ids are not whole 32-bit integers")
    ids = array("i", packed)
    if sys.byteorder == "big":
        ids.byteswap()
    tokens = tuple(ids)
    for index, token in enumerate(tokens):
        if not 0 <= token < vocabulary_size:
            raise ValueError(f"prompt[{index}] is {token}; the model's token ids are 0 to {vocabulary_size - 1}")
    return tokens


def _check_length(tokens: tuple[int, ...], parameter: str, request_limit_tokens: int) -> tuple[int, ...] | Failure:
    if not tokens:
        return Failure(FailureKind.EMPTY_PROMPT, "the prompt has no tokens; send some text", parameter)
    if len(tokens) >= request_limit_tokens:
        sentence = (
            f"the prompt has {len(tokens)} tokens; prompt and answer together may have {request_limit_tokens}, "
            "and the answer needs at least one; shorten it, or raise the desired state's context_size if the model "
            "was trained for more"
        )
        return Failure(FailureKind.PROMPT_TOO_LONG, sentence, parameter)
    return tokens
