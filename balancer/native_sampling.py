"""The optional `sampling` of a native body: the sampling fields of completions, over the desired state's. Pure.

What is not given stays as the desired state has it, and the chain stays llama.cpp's: truncations before temperature,
penalties over prompt and answer.
"""

from typing import Annotated

from pydantic import Field

from balancer.completions_body import Biases, NullIsDefault, Penalty, Stops, StopTokens, TopK
from balancer.generation_request import GenerationOptions
from shared.desired_state import INT32_MAX
from shared.generation_options import SamplingOptions, StopOptions


class NativeSampling(NullIsDefault):
    """`sampling`; null and absent are the same."""

    temperature: Annotated[float, Field(ge=0.0)] | None = None
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    top_k: TopK | None = None
    min_p: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(gt=0.0, le=2.0)] | None = None
    logit_bias: Biases = Field({})
    stop: Stops = Field([])
    stop_token_ids: StopTokens = Field([])
    min_tokens: int = Field(0, ge=0, le=INT32_MAX)
    ignore_eos: bool = False
    seed: int | None = Field(None, ge=-(2**63), le=2**64 - 1)
    priority: int = Field(0, ge=-100, le=100)

    def options(self) -> GenerationOptions:
        """For the agent."""
        return GenerationOptions(
            sampling=SamplingOptions(
                temperature=self.temperature,
                top_k=self.top_k,
                top_p=self.top_p,
                min_p=self.min_p,
                frequency_penalty=self.frequency_penalty,
                presence_penalty=self.presence_penalty,
                repetition_penalty=self.repetition_penalty,
                logit_bias=self.logit_bias,
            ),
            stop=StopOptions(
                strings=self.stop,
                token_ids=self.stop_token_ids,
                min_tokens=self.min_tokens,
                ignores_end=self.ignore_eos,
            ),
        )
