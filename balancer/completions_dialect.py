"""`/v1/completions` in our words: a body becomes one generation group, or a refusal that names the field. Pure."""

from dataclasses import dataclass
from typing import Final

from balancer.choice_seeds import choice_seed
from balancer.completions_body import CompletionBody
from balancer.completions_constraint import ConstraintFields, NamedConstraint, constraint_of
from balancer.completions_prompts import Prompt, TokenPrompt
from balancer.fleet_limits import FleetLimits
from balancer.generation_request import GenerationOptions, GenerationRequest, MemberRequest
from shared.failures import Failure, FailureKind
from shared.generation_options import LogprobOptions, SamplingOptions, StopOptions
from shared.prefix_hashes import BLOCK_BYTES, MAX_HASHES, prefix_hashes

ENDPOINT: Final = "completions"
MAX_PROMPT_LOGPROBS: Final = 1_000_000
"""Of one request, over all its choices. A prompt is evaluated so fast that without a bound one request would fill the
balancer's memory; each costs some 40 bytes of the answer."""

_HASHED: Final = BLOCK_BYTES * MAX_HASHES


@dataclass(frozen=True, slots=True)
class CompletionLimits:
    """The operator's. `max_choices`: prompts times n."""

    max_choices: int = 128
    allows_text_prompts: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """What the group is, and the field that its constraint came from."""

    request: GenerationRequest
    constraint_field: str | None


def completion_of(
    body: CompletionBody,
    request_id: str,
    random_seed: int,
    limits: CompletionLimits,
    fleet: FleetLimits,
) -> Completion | Failure:
    """Choices are numbered prompt by prompt: index = prompt * n + sample. `random_seed`: when the body has none."""
    failure = _between_fields(body, limits) or _beyond_fleet(body, fleet)
    if failure is not None:
        return failure
    constraint = constraint_of(
        ConstraintFields(body.ebnf, body.regex, body.json_schema, body.structural_tag, body.response_format)
    )
    if isinstance(constraint, Failure):
        return constraint
    if constraint is not None and body.ignore_eos:
        return _refusal("ignore_eos", "cannot be used together with a constraint")
    request = GenerationRequest(
        request_id=request_id,
        endpoint=ENDPOINT,
        raw_prompt=None,
        prompt_token_ids=None,
        max_tokens=body.max_tokens,
        members=_members(body, random_seed if body.seed is None else body.seed),
        constraint=None if constraint is None else constraint.constraint,
        priority=body.priority,
        prefix_hashes=_hashes_of(body.prompt[0]),
        options=_options(body),
    )
    return Completion(request, constraint.field if isinstance(constraint, NamedConstraint) else None)


def logprob_start(body: CompletionBody) -> tuple[int, int]:
    """From which prompt token on OpenAI's shape and SGLang's tell of log-probabilities; -1: of the answer only."""
    openai = 0 if body.echo and body.logprobs else -1
    sglang = body.logprob_start_len if body.return_logprob else -1
    return openai, sglang


def _between_fields(body: CompletionBody, limits: CompletionLimits) -> Failure | None:
    if not limits.allows_text_prompts and any(isinstance(prompt, str) for prompt in body.prompt):
        return _refusal("prompt", "must be token ids here; text goes to /v1/complete")
    choices = len(body.prompt) * body.n
    if choices > limits.max_choices:
        if body.n == 1:
            return _refusal("prompt", f"holds {choices} prompts; at most {limits.max_choices} can be")
        return _refusal("n", f"asks for {choices} choices together with prompt; at most {limits.max_choices} can be")
    if body.min_tokens > body.max_tokens:
        return _refusal("min_tokens", f"must be at most max_tokens, which is {body.max_tokens}")
    if body.stream_options is not None and not body.stream:
        return _refusal("stream_options", "needs stream to be true")
    if body.best_of is not None and body.best_of != body.n:
        return _refusal("best_of", "must be null or equal to n")
    if not body.return_logprob:
        for name in ("logprob_start_len", "top_logprobs_num", "token_ids_logprob", "return_text_in_logprobs"):
            if getattr(body, name) != CompletionBody.model_fields[name].default:
                return _refusal(name, "needs return_logprob to be true")
    return _start_beyond_prompt(body) or _too_many_logprobs(body)


def _start_beyond_prompt(body: CompletionBody) -> Failure | None:
    for prompt in body.prompt:
        if isinstance(prompt, TokenPrompt) and body.logprob_start_len >= prompt.count:
            return _refusal("logprob_start_len", f"is beyond a prompt of {prompt.count} tokens")
    return None


def _too_many_logprobs(body: CompletionBody) -> Failure | None:
    """Of prompts alone: those of an answer come as slowly as its tokens do."""
    start = min((one for one in logprob_start(body) if one >= 0), default=None)
    if start is None:
        return None
    # A text has at most a token for each of its bytes.
    lengths = (len(prompt.encode()) if isinstance(prompt, str) else prompt.count for prompt in body.prompt)
    places = body.n * sum(max(0, length - start) for length in lengths)
    each = 1 + max(body.logprobs or 0, body.top_logprobs_num) + len(body.token_ids_logprob)
    if places * each <= MAX_PROMPT_LOGPROBS:
        return None
    blamed = "logprob_start_len" if body.return_logprob and body.logprob_start_len >= 0 else "logprobs"
    return _refusal(
        blamed, f"asks for {places * each} log-probabilities of prompts; at most {MAX_PROMPT_LOGPROBS} can be"
    )


def _beyond_fleet(body: CompletionBody, fleet: FleetLimits) -> Failure | None:
    """What no agent could do. Agents check again: they may serve another model by the time they get it."""
    prompts = [prompt for prompt in body.prompt if isinstance(prompt, TokenPrompt)]
    longest = max((prompt.count for prompt in prompts), default=0)
    if fleet.request_tokens is not None and longest >= fleet.request_tokens:
        sentence = (
            f"prompt: has {longest} tokens; prompt and answer together may have {fleet.request_tokens}, "
            "and the answer needs at least one; shorten it, or raise the desired state's context_size if the model "
            "was trained for more"
        )
        return Failure(FailureKind.PROMPT_TOO_LONG, sentence, "prompt")
    if fleet.vocabulary_size is None:
        return None
    largest_ids = {
        "prompt": max((prompt.largest_id for prompt in prompts), default=0),
        "stop_token_ids": max(body.stop_token_ids, default=0),
        "logit_bias": max(body.logit_bias, default=0),
        "token_ids_logprob": max(body.token_ids_logprob, default=0),
    }
    for name, largest_id in largest_ids.items():
        if largest_id >= fleet.vocabulary_size:
            return _refusal(name, f"has token id {largest_id}; the model's are 0 to {fleet.vocabulary_size - 1}")
    return None


def _members(body: CompletionBody, seed: int) -> tuple[MemberRequest, ...]:
    members: list[MemberRequest] = []
    for prompt in body.prompt:
        text, packed = (prompt, None) if isinstance(prompt, str) else (None, prompt.packed)
        for sample in range(body.n):
            members.append(MemberRequest(len(members), choice_seed(seed, sample), text, packed))
    return tuple(members)


def _hashes_of(prompt: Prompt) -> tuple[int, ...]:
    """Of the first prompt: its members are the first that an agent gets."""
    if isinstance(prompt, str):
        return prefix_hashes(prompt[:_HASHED].encode(), "text")
    return prefix_hashes(prompt.packed[:_HASHED], "tokens")


def _options(body: CompletionBody) -> GenerationOptions:
    return GenerationOptions(
        sampling=SamplingOptions(
            temperature=body.temperature,
            top_k=body.top_k,
            top_p=body.top_p,
            min_p=body.min_p,
            frequency_penalty=body.frequency_penalty,
            presence_penalty=body.presence_penalty,
            repetition_penalty=body.repetition_penalty,
            logit_bias=body.logit_bias,
            follows_sglang_order=True,
            penalises_answer_only=True,
        ),
        stop=StopOptions(
            strings=body.stop,
            token_ids=body.stop_token_ids,
            regexes=body.stop_regex,
            keeps_match=body.no_stop_trim,
            min_tokens=body.min_tokens,
            ignores_end=body.ignore_eos,
            skips_special_tokens=body.skip_special_tokens,
            spaces_between_special_tokens=body.spaces_between_special_tokens,
        ),
        logprobs=_logprobs(body),
        echo=body.echo,
        adapter=body.lora_path,
    )


def _logprobs(body: CompletionBody) -> LogprobOptions | None:
    if body.logprobs is None and not body.return_logprob:
        return None
    starts = [start for start in logprob_start(body) if start >= 0]
    return LogprobOptions(
        top_count=max(body.logprobs or 0, body.top_logprobs_num),
        token_ids=body.token_ids_logprob,
        prompt_start=min(starts, default=-1),
        with_text=body.logprobs is not None or body.return_text_in_logprobs,
    )


def _refusal(parameter: str, words: str) -> Failure:
    return Failure(FailureKind.INVALID_REQUEST, f"{parameter}: {words}", parameter)
