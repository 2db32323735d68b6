"""A constraint's mask over a row, where it makes a difference."""

from agent.core.backend import ConstraintMatcher, LogitsRow
from agent.core.sequence import MemberSequence


def mask_row(sequence: MemberSequence, row: LogitsRow) -> bool:
    """Make impossible, in place, what the member's constraint does not let follow; false when the constraint failed.

    Where the constraint allows the token that will be chosen anyway the row stays as it is: a mask costs half a
    millisecond, and a greedy model that has seen the form of its answer chooses so at three places of four.
    """
    constraint = sequence.constraint
    return constraint is None or _is_needless(sequence, constraint, row) or constraint.mask(row)


def _is_needless(sequence: MemberSequence, constraint: ConstraintMatcher, row: LogitsRow) -> bool:
    if sequence.stops is not None and sequence.stops.min_tokens > sequence.answer_tokens:
        return False  # what may not end it yet is made impossible after the mask
    token = sequence.sampler.sure_token(row)
    return token is not None and constraint.allows(token)
