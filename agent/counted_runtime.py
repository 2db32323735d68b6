"""A model runtime around another: it counts how long loads took, and what could not be proved or loaded."""

import contextlib
from collections.abc import Callable, Iterator

from agent.core.statistics import LoadStatistics
from agent.core.swap_events import Problem, Proof, Proved
from agent.model_port import KeepLoading, LoadedModel, LoadGivenUpError, ModelRuntime
from shared.agent_figures import MODEL_LOAD_SECONDS_EDGES, Histogram
from shared.desired_state import AgentDesiredState


class CountedRuntime:
    """Implements `ModelRuntime`. A load that was given up is neither a load nor a failure."""

    def __init__(self, runtime: ModelRuntime, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._runtime = runtime
        self._clock = clock
        self._failed = 0
        self._seconds = Histogram(MODEL_LOAD_SECONDS_EDGES)

    def statistics(self) -> LoadStatistics:
        """What was counted; from any thread."""
        return LoadStatistics(self._failed, self._seconds.read())

    def prove(self, state: AgentDesiredState, keep_loading: KeepLoading, *, reload: bool) -> Proved | Problem:
        """The other's; a problem is counted, and so is an error."""
        with self._counting_errors():
            outcome = self._runtime.prove(state, keep_loading, reload=reload)
        self._failed += isinstance(outcome, Problem)
        return outcome

    def load(self, state: AgentDesiredState, proof: Proof, keep_loading: KeepLoading) -> LoadedModel | Problem:
        """The other's; a problem is counted, and so are an error and the time that a good load took."""
        started = self._clock()
        with self._counting_errors():
            outcome = self._runtime.load(state, proof, keep_loading)
        if isinstance(outcome, Problem):
            self._failed += 1
        else:
            self._seconds.observe(self._clock() - started)
        return outcome

    def drop_proof(self, proof: Proof) -> None:
        """The other's."""
        self._runtime.drop_proof(proof)

    @contextlib.contextmanager
    def _counting_errors(self) -> Iterator[None]:
        try:
            yield
        except LoadGivenUpError:
            raise
        except Exception:
            self._failed += 1
            raise
