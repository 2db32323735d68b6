"""How one request's tokens are drawn: the desired state's parameters, with what the request itself asks for."""

from dataclasses import asdict, dataclass, field

from shared.generation import SamplingParameters
from shared.generation_options import SamplingOptions

_WHOLE_ANSWER = -1


@dataclass(frozen=True, slots=True)
class RequestSampling(SamplingParameters):
    """`logit_bias`: pairs of token id and what is added to its raw logit.

    `follows_sglang_order`: as in `SamplingOptions`.
    """

    logit_bias: tuple[tuple[int, float], ...] = field(default=(), kw_only=True)
    follows_sglang_order: bool = field(default=False, kw_only=True)


def request_sampling(state: SamplingParameters, options: SamplingOptions | None) -> SamplingParameters:
    """The options over the state's parameters. Penalties that count the answer only count all of it."""
    if options is None:
        return state
    asked = {
        "temperature": options.temperature,
        "top_k": options.top_k,
        "top_p": options.top_p,
        "min_p": options.min_p,
        "penalty_frequency": options.frequency_penalty,
        "penalty_presence": options.presence_penalty,
        "penalty_repeat": options.repetition_penalty,
        "penalty_last_n": _WHOLE_ANSWER if options.penalises_answer_only else None,
    }
    values = asdict(state) | {name: value for name, value in asked.items() if value is not None}
    return RequestSampling(
        **values,
        logit_bias=tuple(options.logit_bias.items()),
        follows_sglang_order=options.follows_sglang_order,
    )
