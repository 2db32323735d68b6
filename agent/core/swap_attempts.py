"""How often the wanted state failed, and when it may be tried again. Times are seconds of the caller's clock."""

import math

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 30.0


class Attempts:
    """The tries at one wanted state."""

    def __init__(self) -> None:
        self.failures = 0
        self.restore_failed = False  # the model that served before could not be brought back either
        self._blocked_until = -math.inf  # inf: not before another state, or the same under a new revision

    @property
    def is_given_up(self) -> bool:
        """Whether only a new state (or a new revision of it) leads to another try."""
        return self._blocked_until == math.inf

    @property
    def next_try(self) -> float | None:
        """When the state may be tried again; None: now, or never."""
        return self._blocked_until if math.isfinite(self._blocked_until) else None

    def allow_now(self) -> None:
        """Somebody asked for another try."""
        self._blocked_until = -math.inf

    def may_try(self, now: float) -> bool:
        """Whether the state may be tried; when its time has just come, the model before it gets a new chance too."""
        if now < self._blocked_until:
            return False
        if math.isfinite(self._blocked_until):
            self._blocked_until = -math.inf
            self.restore_failed = False
        return True

    def failed(self, now: float, *, retry: bool) -> None:
        """A try failed; with `retry` the next one comes by itself after 1, 2, 4 ... 30 s."""
        self.failures += 1
        delay = min(FIRST_RETRY_SECONDS * 2 ** min(self.failures - 1, 10), LONGEST_RETRY_SECONDS)
        self._blocked_until = now + delay if retry else math.inf

    def succeeded(self) -> None:
        """The wanted state is in force."""
        self.failures = 0
