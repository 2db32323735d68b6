"""From a client's constraint to a matcher for its request: compiled once per content, and copied from then on.

llguidance has no compiled form besides the matcher, so a pristine one is kept for each content, never advanced, and
copied for each request. Copies share what they learn, and its limits: a form that wears out is compiled anew while it
still serves. Who asks for what is being compiled waits for that compile. A refusal is an outcome too and kept: a
client that repeats itself costs nothing.
"""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, replace

from agent.constraint.cache import LeastRecentlyUsed
from agent.constraint.compile_threads import CompileThreads, Job
from agent.constraint.compiling import FAILED, PARAMETER, compile_constraint, refusal
from agent.constraint.kept_masks import MaskRoom
from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary
from agent.constraint.pristine import ConstraintWalk, Pristine, Recipe
from agent.constraint.token_mask import MaskWriter
from agent.core.statistics import CompilerStatistics
from shared.agent_figures import COMPILE_SECONDS_EDGES, MASK_SECONDS_EDGES, Histogram
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText

TAKES_TOO_LONG = "takes too long to compile; make it smaller or less nested"
OTHERS_TAKE_TOO_LONG = "other constraints are being compiled and take long; try again in a few seconds"
MODEL_GOES = "the model is being exchanged; try again"

Compile = Callable[[ConstraintText, Recipe], Pristine | Failure]


@dataclass(eq=False, slots=True)
class _Flight:
    """A compile that is waiting or under way."""

    started: float  # monotonic seconds
    outcome: "Future[Pristine | Failure]"
    job: Job | None = None


class ConstraintCompiler:
    """Implements `ConstraintSource` (agent/model_port.py) for one vocabulary. Usable from any thread."""

    def __init__(
        self,
        vocabulary: ConstraintVocabulary,
        limits: ConstraintLimits | None = None,
        compile_one: Compile = compile_constraint,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits = limits or ConstraintLimits()
        self._mask_seconds = Histogram(MASK_SECONDS_EDGES)  # observed by the engine's thread
        writer = MaskWriter(vocabulary.size)
        self._recipe: Recipe | None = Recipe(vocabulary, writer, limits, self._mask_seconds, MaskRoom())  # None: closed
        self._compile_one = compile_one
        self._clock = clock
        self._threads = CompileThreads(limits.threads, limits.overdue_threads, limits.stack_bytes)
        self._lock = threading.Lock()  # of all below; held for moments only
        self._compiled: LeastRecentlyUsed[Pristine] = LeastRecentlyUsed(limits.cache_entries, limits.cache_bytes)
        self._refused: LeastRecentlyUsed[Failure] = LeastRecentlyUsed(limits.refused_entries, limits.refused_bytes)
        self._flights: dict[Hashable, _Flight] = {}
        self._compile_seconds = Histogram(COMPILE_SECONDS_EDGES)
        self._statistics = CompilerStatistics()

    def __repr__(self) -> str:
        return f"<ConstraintCompiler {self._compiled!r}, {len(self._flights)} under way, {self._threads!r}>"

    def compile(self, constraint: ConstraintText) -> ConstraintWalk | Failure:
        """A matcher at its start, for one request; or a failure of the request's own. Blocks: 0.1 ms for what is
        kept, `answer_seconds` at most for what is not."""
        recipe = self._recipe
        if recipe is None:
            return Failure(FailureKind.INTERNAL, MODEL_GOES, PARAMETER)
        found = self._find_or_begin(constraint, recipe)
        outcome = found if not isinstance(found, _Flight) else self._wait(constraint, found)
        return outcome if isinstance(outcome, Failure) else recipe.walk(outcome.root, outcome.wear)

    def statistics(self) -> CompilerStatistics:
        """How much was compiled and kept."""
        with self._lock:
            return replace(
                self._statistics,
                cached=len(self._compiled),
                compile_seconds=self._compile_seconds.read(),
                mask_seconds=self._mask_seconds.read(),
            )

    def close(self) -> None:
        """Compile nothing more, and forget everything, the vocabulary too. Matchers that were given out go on working.
        Waits a second at most for a compile that runs. Idempotent."""
        with self._lock:
            self._recipe = None
            flights = tuple(self._flights.values())
            self._flights.clear()
            self._compiled.clear()
            self._refused.clear()
        for flight in flights:
            _settle(flight, Failure(FailureKind.INTERNAL, MODEL_GOES, PARAMETER))
        self._threads.close()

    # Private

    def _find_or_begin(self, constraint: ConstraintText, recipe: Recipe) -> Pristine | Failure | _Flight:
        key = (constraint.kind, constraint.text, constraint.root)
        with self._lock:
            if self._recipe is None:
                return Failure(FailureKind.INTERNAL, MODEL_GOES, PARAMETER)
            kept = self._compiled.get(key)
            if kept is not None and kept.wear.is_broken:
                kept = None
            if kept is not None:
                self._compiled.put(key, kept, kept.weight_bytes)  # it grows with use
            if kept is not None and kept.wear.seconds > self._limits.worn_seconds and key not in self._flights:
                self._begin(key, constraint, recipe)
            found = kept or self._refused.get(key) or self._flights.get(key)
            if found is None:
                return self._begin(key, constraint, recipe)
            self._statistics = replace(self._statistics, cache_hits=self._statistics.cache_hits + 1)
            return found

    def _begin(self, key: Hashable, constraint: ConstraintText, recipe: Recipe) -> _Flight:
        """Under the lock."""
        flight = self._flights[key] = _Flight(self._clock(), Future())
        flight.job = self._threads.submit(lambda: self._fly(key, constraint, flight, recipe))
        return flight

    def _wait(self, constraint: ConstraintText, flight: _Flight) -> Pristine | Failure:
        left_seconds = flight.started + self._limits.answer_seconds - self._clock()
        try:
            return flight.outcome.result(max(0.0, left_seconds))
        except TimeoutError:
            pass
        assert flight.job is not None
        with self._lock:
            self._statistics = replace(self._statistics, overdue=self._statistics.overdue + 1)
        if self._threads.leave_alone(flight.job):
            return refusal(constraint, TAKES_TOO_LONG)
        with self._lock:
            self._flights = {key: other for key, other in self._flights.items() if other is not flight}
        busy = refusal(constraint, OTHERS_TAKE_TOO_LONG)
        _settle(flight, busy)
        return busy

    def _fly(self, key: Hashable, constraint: ConstraintText, flight: _Flight, recipe: Recipe) -> None:
        """On a compile thread."""
        began = self._clock()
        outcome: Pristine | Failure = Failure(FailureKind.INTERNAL, FAILED, PARAMETER)
        try:
            outcome = self._compile_one(constraint, recipe)
        finally:
            self._land(key, constraint, outcome, self._clock() - began)
            _settle(flight, outcome)

    def _land(self, key: Hashable, constraint: ConstraintText, outcome: Pristine | Failure, seconds: float) -> None:
        with self._lock:
            self._flights.pop(key, None)
            counts = self._statistics
            self._statistics = replace(
                counts,
                compiles=counts.compiles + 1,
                refused=counts.refused + isinstance(outcome, Failure),
            )
            self._compile_seconds.observe(seconds)
            if self._recipe is None:
                return
            kept = self._compiled.get(key)
            if isinstance(outcome, Pristine):
                self._compiled.put(key, outcome, outcome.weight_bytes)
            elif kept is not None and not kept.wear.is_broken:
                kept.wear.seconds = 0.0  # it compiled before: what is worn is better than nothing
            elif outcome.kind is not FailureKind.INTERNAL:
                self._refused.put(key, outcome, len(constraint.text))


def _settle(flight: _Flight, outcome: Pristine | Failure) -> None:
    """Only the first word counts: the compile's, or that of who closed it."""
    with suppress(InvalidStateError):
        flight.outcome.set_result(outcome)
