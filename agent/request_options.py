"""A request's options as the engine takes them, or why they cannot be honoured here. What the balancer could check
without the model's vocabulary it has checked: here are ids, places in the prompt, and regexes. Blocks, for a second at
most (large regexes)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from agent.core.backend import LogprobsWanted
from agent.core.stop_rules import StopRules
from agent.core.stop_search import StopStrings
from agent.stop_patterns import StopPatternError, stop_patterns
from shared.failures import Failure, FailureKind
from shared.generation_options import LogprobOptions, StopOptions
from shared.messages_to_agent import Generate


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What of a request goes to the engine beside its prompt."""

    stops: StopRules | None = None
    logprobs: LogprobsWanted | None = None


def prepare_options(message: Generate, vocabulary_size: int, adapters: Collection[str] = ()) -> EngineOptions | Failure:
    """Failures name the field of the completion API that is at fault. `adapters`: those that are loaded."""
    failure = _foreign_ids(message, vocabulary_size) or _contradiction(message, adapters)
    if failure is not None:
        return failure
    try:
        stops = None if message.stop is None else _stop_rules(message.stop)
    except StopPatternError as error:
        return _invalid(str(error), "stop_regex")
    return EngineOptions(stops, None if message.logprobs is None else _logprobs(message.logprobs))


def check_prompt_start(message: Generate, prompt_tokens: int) -> Failure | None:
    """Whether log-probabilities are asked of a prompt's token that is not there."""
    if message.logprobs is None or message.logprobs.prompt_start < prompt_tokens:
        return None
    sentence = f"it is {message.logprobs.prompt_start}, but the prompt has {prompt_tokens} tokens"
    return _invalid(sentence, "logprob_start_len")


def _foreign_ids(message: Generate, vocabulary_size: int) -> Failure | None:
    named: list[tuple[str, Iterable[int]]] = []
    if message.sampling is not None:
        named.append(("logit_bias", message.sampling.logit_bias))
    if message.stop is not None:
        named.append(("stop_token_ids", message.stop.token_ids))
    if message.logprobs is not None:
        named.append(("token_ids_logprob", message.logprobs.token_ids))
    for parameter, tokens in named:
        for token in tokens:
            if not 0 <= token < vocabulary_size:
                sentence = f"{token} is no token; the model's token ids are 0 to {vocabulary_size - 1}"
                return _invalid(sentence, parameter)
    return None


def _contradiction(message: Generate, adapters: Collection[str]) -> Failure | None:
    if message.adapter is not None and message.adapter not in adapters:
        sentence = f"the adapter {message.adapter!r} is not loaded yet on the agent that got the request; try again"
        return Failure(FailureKind.ADAPTER_NOT_LOADED, sentence, "lora_path")
    if message.stop is not None and message.stop.ignores_end and message.constraint is not None:
        return _invalid("it cannot be combined with a constraint, which says where the output ends", "ignore_eos")
    return None


def _stop_rules(options: StopOptions) -> StopRules:
    return StopRules(
        strings=StopStrings(options.strings) if options.strings else None,
        patterns=stop_patterns(options.regexes),
        token_ids=frozenset(options.token_ids),
        keeps_match=options.keeps_match,
        min_tokens=options.min_tokens,
        ignores_end=options.ignores_end,
        shows_special=not options.skips_special_tokens,
        spaces_special=options.spaces_between_special_tokens,
    )


def _logprobs(options: LogprobOptions) -> LogprobsWanted:
    return LogprobsWanted(
        top_count=options.top_count,
        token_ids=tuple(options.token_ids),
        prompt_start=options.prompt_start if options.prompt_start >= 0 else None,
        with_text=options.with_text,
    )


def _invalid(sentence: str, parameter: str) -> Failure:
    return Failure(FailureKind.INVALID_REQUEST, f"{parameter}: {sentence}", parameter)
