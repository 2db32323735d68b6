"""One record per member in flight: everything the scheduler knows about it, in one place."""

from dataclasses import dataclass, field
from enum import Enum

from agent.core.backend import ConstraintMatcher, LogprobsWanted, Sampler
from agent.core.commands import MemberKey, Submit
from agent.core.prompt_lookup import PromptLookup
from agent.core.stop_rules import StopRules
from agent.core.stop_search import StopSearch
from agent.core.text_assembly import TextAssembler
from shared.generation import Usage


class Phase(Enum):
    """Where an open member stands. It leaves the scheduler's table when it ends, so there is no phase for that."""

    WAITING = "waiting"  # submitted, no slot yet
    RUNNING = "running"  # has a slot; holds cells, or awaits a prefix that another member is evaluating
    SET_ASIDE = "set_aside"  # has a slot and its token ids; its cells were taken back


@dataclass(frozen=True, slots=True)
class AwaitedPrefix:
    """The first `tokens` tokens of a prompt are being evaluated by `owner`; they will be shared, not computed twice."""

    owner: MemberKey
    tokens: int


@dataclass(slots=True, eq=False)
class MemberSequence:
    """`tokens` is prompt and answer; the first `evaluated` of them are in memory under `sequence_id`.

    The answer grows by one sampled token and those that the constraint forces after it (`newest_tokens` together).
    What is forced before the first sampled token is known with the prompt: evaluated with it, reported after it.
    """

    key: MemberKey
    tokens: list[int]
    prompt_tokens: int
    max_tokens: int
    arrival: int
    priority: int
    sampler: Sampler
    adapter: str | None = None
    constraint: ConstraintMatcher | None = None
    lookup: PromptLookup | None = None  # where its next tokens are guessed
    stops: StopRules | None = None
    search: StopSearch | None = None
    logprobs: LogprobsWanted | None = None
    next_logprob: int | None = None  # token of the prompt whose log-probability is owed next; None: no more of them
    text: TextAssembler = field(default_factory=TextAssembler)
    phase: Phase = Phase.WAITING
    sequence_id: int | None = None
    evaluated: int = 0
    awaits: AwaitedPrefix | None = None
    cached_prompt_tokens: int | None = None  # None until the first cells were attached
    newest_tokens: int = 0  # by how many tokens the answer grew last
    reported_tokens: int = 0  # of the answer
    ends_with_special: bool = False  # its text so far, where control tokens have text
    last_step: int = 0  # the step that evaluated something of it; the least recent one goes first

    @classmethod
    def of(cls, request: Submit, sampler: Sampler) -> "MemberSequence":
        """A member that nothing was done for yet."""
        wanted = request.logprobs
        start = wanted.prompt_start if wanted else None
        text = TextAssembler()
        text.push(request.text_before)
        return cls(
            key=request.key,
            tokens=list(request.prompt),
            prompt_tokens=len(request.prompt),
            max_tokens=request.max_tokens,
            arrival=request.arrival,
            priority=request.priority,
            sampler=sampler,
            adapter=request.adapter,
            constraint=request.constraint,
            stops=request.stops,
            search=request.stops.search() if request.stops else None,
            logprobs=wanted,
            text=text,
            next_logprob=start if start is not None and start < len(request.prompt) else None,
        )

    @property
    def rank(self) -> tuple[int, int]:
        """Smaller is served sooner: larger priority, then earlier arrival. The largest rank is the youngest."""
        return (-self.priority, self.arrival)

    @property
    def is_attached(self) -> bool:
        """Whether it runs under a sequence id, and so may be put into a batch."""
        return self.sequence_id is not None

    @property
    def answer_tokens(self) -> int:
        """Tokens sampled or forced so far; the end-of-generation token is never among them."""
        return len(self.tokens) - self.prompt_tokens

    def room(self, request_limit_tokens: int) -> int:
        """By how many tokens the answer may still grow, where prompt and answer together have that limit."""
        return min(self.max_tokens - self.answer_tokens, request_limit_tokens - len(self.tokens))

    @property
    def pending_tokens(self) -> int:
        """Tokens that are known and not in memory; at least 1, since the last one brings the next logits."""
        return len(self.tokens) - self.evaluated

    @property
    def reusable_tokens(self) -> int:
        """How many of its first tokens may be taken from memory: the last one, and each before a token whose
        log-probability is owed, must be evaluated for its logits."""
        most = len(self.tokens) - 1
        return most if self.next_logprob is None else min(most, max(0, self.next_logprob - 1))

    def logits_rows(self, rows: int) -> int:
        """Of how many of its next `rows` pending tokens it needs logits; they are the last ones of these."""
        stop = self.evaluated + rows
        if self.next_logprob is not None:
            return max(0, stop - max(self.evaluated, self.next_logprob - 1))
        return int(stop == len(self.tokens))

    @property
    def is_generating(self) -> bool:
        """Whether nothing but its newest tokens is left to evaluate (or the last token of its prompt)."""
        return self.pending_tokens <= max(1, self.newest_tokens)

    @property
    def missing_cells(self) -> int:
        """Cells it still needs for the tokens it has, apart from those it will share."""
        return self.pending_tokens - (self.awaits.tokens if self.awaits else 0)

    @property
    def usage(self) -> Usage:
        """What it cost up to now."""
        return Usage(
            prompt_tokens=self.prompt_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens or 0,
            content_tokens=self.reported_tokens,
        )
