"""Who may begin: what is refused outright, whether there is room, and whose evaluation is worth waiting for."""

from collections.abc import Iterable

from agent.core.backend import BackendLimits
from agent.core.commands import Submit
from agent.core.prefix_tree import common_length
from agent.core.sequence import AwaitedPrefix, MemberSequence, Phase
from shared.failures import Failure, FailureKind

WORTH_AWAITING_TOKENS = 16
"""Below this, evaluating the tokens again costs less than the step that the wait for them takes. Every prompt of a
model shares its BOS token, and those of a chat template a few more."""

PROMPT_FILLS_CONTEXT = Failure(
    FailureKind.PROMPT_TOO_LONG, "The prompt fills the whole context; no token can be generated."
)


def refusal(request: Submit, limits: BackendLimits) -> Failure | None:
    """Why the request can never run here; None when it can. The request desk has checked all this already: here it
    keeps one wrong request from stopping the engine for all, or from waiting for ever."""
    if not request.prompt:
        return Failure(FailureKind.EMPTY_PROMPT, "The prompt has no tokens.")
    limit = min(limits.request_limit_tokens, limits.context_cells)
    if len(request.prompt) >= limit:
        message = f"The prompt has {len(request.prompt)} tokens; this model's context leaves room for {limit - 1}."
        return Failure(FailureKind.PROMPT_TOO_LONG, message)
    if min(request.prompt) < 0 or max(request.prompt) >= limits.vocabulary_size:
        return Failure(FailureKind.INVALID_REQUEST, "The prompt has token ids outside the model's vocabulary.")
    return None


def cells_spoken_for(running: Iterable[MemberSequence]) -> int:
    """Cells that running members still need for the tokens they have."""
    return sum(sequence.missing_cells for sequence in running)


def prefix_to_await(sequence: MemberSequence, matched: int, running: Iterable[MemberSequence]) -> AwaitedPrefix | None:
    """The longest prefix that another running member will have evaluated, where it beats the `matched` tokens that
    are in memory now. Members without cells are awaited by younger ones only, so that no two await each other.
    """
    most = sequence.reusable_tokens
    best: AwaitedPrefix | None = None
    least = matched + WORTH_AWAITING_TOKENS
    for other in running:
        if other is sequence or other.adapter != sequence.adapter or min(most, len(other.tokens)) < least:
            continue
        if not other.is_attached and other.rank > sequence.rank:
            continue
        if other.tokens[least - 1] != sequence.tokens[least - 1]:
            continue  # cheap, and true of nearly all
        shared = common_length(other.tokens, sequence.tokens, 0, most)
        if shared >= least and other.evaluated < shared:
            best = AwaitedPrefix(other.key, shared)
            least = shared + 1
            if shared == most:
                break
    return best


def still_awaits(sequence: MemberSequence, owner: MemberSequence | None) -> bool:
    """Whether the awaited prefix is still to come. If its owner left, the sequence takes over where that one was."""
    if sequence.awaits is None or owner is None or owner.phase is not Phase.RUNNING:
        return False
    return owner.evaluated < sequence.awaits.tokens
