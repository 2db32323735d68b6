"""What one choice of a request brought, and how it is added up. Pure."""

from dataclasses import dataclass
from typing import Final

from balancer.request_record import RequestRecord
from shared.generation import Usage

_NOTHING: Final = Usage()


@dataclass(slots=True)
class ChoiceTokens:
    """`usage`: the agent's word, with the end; a failure's says nothing. Until then what was relayed is all we know.
    `prompt_tokens`: as the agent accepted it. `last_token_at`: by the record's clock."""

    last_token_at: float | None = None
    relayed_tokens: int = 0
    prompt_tokens: int = 0
    usage: Usage = _NOTHING

    def add_to(self, record: RequestRecord, *, is_first_of_prompt: bool) -> None:
        """A prompt counts once, with its first choice, as in the usage that clients are told."""
        usage, is_told = self.usage, self.usage != _NOTHING
        if is_first_of_prompt:
            record.prompt_tokens += usage.prompt_tokens if is_told else self.prompt_tokens
            record.cached_prompt_tokens += usage.cached_prompt_tokens
        record.content_tokens += usage.content_tokens if is_told else self.relayed_tokens
        record.reasoning_tokens += usage.reasoning_tokens
        record.tool_call_tokens += usage.tool_call_tokens
        record.undeterminable_tokens += usage.undeterminable_tokens
        if self.last_token_at is not None:
            record.last_token_at = max(self.last_token_at, record.last_token_at or self.last_token_at)
