"""What walks cost: the lexer that they share, and the engine's time."""

import time

from agent.constraint.limits import ConstraintLimits
from shared.agent_figures import Histogram


class Wear:
    """What walks did to the lexer that they share: llguidance's copies of a matcher have one in common.

    It learns states with each walk, up to a limit; one that reached a limit is in error for all its copies, for good.
    So who keeps a matcher asks here whether to take another. Written by any thread; lost additions do not matter.
    """

    __slots__ = ("_mask_seconds", "is_broken", "seconds")

    def __init__(self, mask_seconds: Histogram | None = None) -> None:
        """`mask_seconds`: where the masks of requests are counted, over all compiled forms."""
        self._mask_seconds = mask_seconds
        self.seconds = 0.0  # CPU spent on masks
        self.is_broken = False

    def masked(self, seconds: float) -> None:
        """A mask was made and written into a row, in so much CPU time."""
        if self._mask_seconds is not None:
            self._mask_seconds.observe(seconds)


class TimeSpent:
    """The engine's time that one request's walk takes, against its share: so much, and so much for each token."""

    __slots__ = ("_limits", "seconds")

    def __init__(self, limits: ConstraintLimits) -> None:
        self._limits = limits
        self.seconds = 0.0

    def charge(self, started: float, tokens: int) -> bool:
        """Add the CPU time of this thread since `started`; false when that was more than the walk's share after so many
        tokens."""
        self.seconds += time.thread_time() - started
        return self.seconds <= self._limits.run_seconds + tokens * self._limits.run_seconds_per_token
