"""`POST /v1/complete` in our words: the legacy text completion of the seed, and of Anthropic's API. Pure.

The prompt is raw text: no template, no rules about who speaks, and names of special tokens in it are only text.
"""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from balancer import foreign_words
from balancer.completions_body import NullIsDefault, Stop, Text, TopK
from balancer.generation_request import GenerationOptions, GenerationRequest, MemberRequest
from shared.desired_state import INT32_MAX
from shared.generation_options import SamplingOptions, StopOptions
from shared.prefix_hashes import BLOCK_BYTES, MAX_HASHES, prefix_hashes

ENDPOINT: Final = "complete"
MAX_STOP_SEQUENCES: Final = 4
_HASHED_CHARACTERS: Final = BLOCK_BYTES * MAX_HASHES


class Metadata(NullIsDefault):
    """`metadata`: yours; logged as a hash."""

    user_id: Text | None = None


class CompleteBody(NullIsDefault):
    """The body of `POST /v1/complete`."""

    # Every `description` is a row of docs/complete.md.

    FOREIGN_WORDS: ClassVar = foreign_words.COMPLETE

    model: Text = Field(min_length=1, description="a served model's id")
    prompt: str = Field(description="raw text; special tokens in it are not parsed")
    max_tokens_to_sample: int = Field(ge=1, le=INT32_MAX, description="the most tokens of the answer")
    stop_sequences: Annotated[list[Stop], Field(max_length=MAX_STOP_SEQUENCES)] = Field(
        [], description="up to 4; the earliest in the text ends the answer and is cut off"
    )
    stream: bool = Field(False, description="server-sent events as the answer comes")
    temperature: float = Field(1.0, ge=0.0, le=2.0, description="0: the likeliest token each time")
    top_p: float = Field(1.0, gt=0.0, le=1.0, description="the fewest tokens of that probability together; 1: off")
    top_k: TopK = Field(-1, description="the likeliest tokens; -1: off")
    metadata: Metadata | None = Field(None, description="user_id: yours; logged as a hash")

    def to_generation_request(self, request_id: str, seed: int, adapter: str | None = None) -> GenerationRequest:
        """A group of one. `seed`: 64 random bits, since nobody can ask for a seed here. `adapter`: by its name in the
        desired state."""
        return GenerationRequest(
            request_id=request_id,
            endpoint=ENDPOINT,
            raw_prompt=self.prompt,
            prompt_token_ids=None,
            max_tokens=self.max_tokens_to_sample,
            members=(MemberRequest(0, seed),),
            prefix_hashes=prefix_hashes(self.prompt[:_HASHED_CHARACTERS].encode(), "text"),
            options=GenerationOptions(
                sampling=SamplingOptions(
                    temperature=self.temperature,
                    top_k=self.top_k,
                    top_p=self.top_p,
                    min_p=0.0,
                    frequency_penalty=0.0,
                    presence_penalty=0.0,
                    repetition_penalty=1.0,
                    follows_sglang_order=True,
                    penalises_answer_only=True,
                ),
                stop=StopOptions(strings=self.stop_sequences),
                parses_special=False,
                adapter=adapter,
            ),
        )
