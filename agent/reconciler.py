"""Drives the swap of models: feeds it facts, and does in worker threads what it asks for. Decides nothing itself.

The event loop stays free while a model is proved or loaded: status messages and pongs flow (C24).
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from agent.core import swap_events as facts
from agent.core.swap import Swap
from agent.model_port import LoadedModel, ModelRuntime
from agent.request_desk import Service
from agent.swap_jobs import SwapResult, close_model, drop_proof, exchange, prove
from shared.agent_status import AgentIssue, IssueKind
from shared.desired_state import AgentDesiredState

logger = logging.getLogger(__name__)


class Desk(Protocol):
    """Who serves requests with the model that is loaded."""

    def use(self, service: Service | None) -> None: ...

    def set_open(self, is_open: bool) -> None: ...


class Reconciler:
    """Brings the agent from the state it serves to the state that balancers want."""

    def __init__(
        self,
        swap: Swap,
        runtime: ModelRuntime,
        worker: Executor,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        """`worker` runs one job at a time. `clock`: monotonic seconds. `on_change`: the status differs now."""
        self._swap = swap
        self._runtime = runtime
        self._worker = worker
        self._clock = clock
        self._on_change = on_change
        self._desk: Desk | None = None
        self._model: LoadedModel | None = None
        self._wanted_by: int | None = None
        self._wanted_revision = -1
        self._jobs: asyncio.Queue[Callable[[], SwapResult]] = asyncio.Queue()  # at most one: the swap's own rule
        self._job: asyncio.Future[SwapResult] | None = None
        self._give_up = threading.Event()
        self._timer_moved = asyncio.Event()
        self._is_leaving = False
        self._said_issues: tuple[AgentIssue, ...] = ()
        self._said_revision: int | None = None

    def __repr__(self) -> str:
        return f"<Reconciler {self._swap!r}>"

    def serve_through(self, desk: Desk) -> None:
        """Give the desk the models that are loaded. Once, before anything else."""
        self._desk = desk

    # Questions

    @property
    def swap(self) -> Swap:
        """What to ask about revisions, phases and issues."""
        return self._swap

    @property
    def model(self) -> LoadedModel | None:
        """The model that is loaded."""
        return self._model

    # Facts

    def state_wanted(self, link: int, revision: int, state: AgentDesiredState, *, giver_is_up: bool) -> None:
        """A balancer wants a state. The newest word counts, save that a balancer that lags behind another one is
        not followed: a lower revision, while the link that gave the higher one is up (`giver_is_up`)."""
        if revision < self._wanted_revision and giver_is_up and link != self._wanted_by:
            logger.info("link %d wants revision %d; %d is known", link, revision, self._wanted_revision)
            return
        self._wanted_by, self._wanted_revision = link, revision
        self._handle(facts.StateWanted(revision, state))

    @property
    def wanted_by(self) -> int | None:
        """The link that gave the state that is followed."""
        return self._wanted_by

    def slots_in_use(self, count: int) -> None:
        """So many requests are in flight."""
        self._handle(facts.SlotsInUse(count))

    def engine_crashed(self, model: LoadedModel, sentence: str) -> None:
        """The engine of a model ended by an error; it has ended its requests."""
        if model is not self._model:
            return
        self._retire_model()
        self._worker.submit(close_model, model)
        path = model.model_path
        issue = AgentIssue(kind=IssueKind.MODEL_CANNOT_BE_LOADED, model_path=path, detail=sentence)
        self._handle(facts.ModelLost(issue))

    def leave(self) -> None:
        """The process is about to end: nothing new is taken, and a proof or load that runs is given up."""
        self._is_leaving = True
        self._give_up.set()
        self._open_or_close_desk()

    # The driver

    async def run(self) -> None:
        """Carry out orders and watch the time, for ever. Cancelled: what runs in the worker goes on there, and
        `close` waits for it."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._carry_out_orders(), name="model swap")
            tasks.create_task(self._watch_time(), name="model swap timer")

    async def close(self) -> None:
        """Wait for what runs in the worker, end the engine and free the model. After `run` was cancelled."""
        self.leave()
        if self._job is not None:
            self._model = (await self._job).model or self._model
        model = self._retire_model()
        if model is not None:
            await asyncio.get_running_loop().run_in_executor(self._worker, close_model, model)

    async def _carry_out_orders(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            job = await self._jobs.get()
            self._job = loop.run_in_executor(self._worker, job)
            result = await asyncio.shield(self._job)
            self._job = None
            self._model = result.model or self._model
            self._handle(result.event)

    async def _watch_time(self) -> None:
        while True:
            deadline = self._swap.next_deadline()
            self._timer_moved.clear()
            try:
                async with asyncio.timeout(None if deadline is None else max(0.0, deadline - self._clock())):
                    await self._timer_moved.wait()
            except TimeoutError:
                self._handle(facts.TimePassed())

    def _handle(self, event: facts.Event) -> None:
        for action in self._swap.handle(event, self._clock()):
            self._perform(action)
        if isinstance(event, facts.Loaded) and self._swap.serving is not None:
            self._use(self._swap.serving.state)
        self._open_or_close_desk()
        self._timer_moved.set()
        self._say_what_is_new()
        self._on_change()

    def _say_what_is_new(self) -> None:
        """Each issue once for as long as it lasts, however often the state is tried, and each revision in force."""
        issues, revision = self._swap.issues.current(), self._swap.applied_revision
        for issue in issues:
            if issue not in self._said_issues:
                logger.warning("%s: %s", issue.kind, issue.detail or issue.model_path)
        if revision is not None and revision != self._said_revision:
            logger.info("revision %d is in force: %s", revision, self._model.model_path if self._model else "no model")
        self._said_issues, self._said_revision = issues, revision

    def _perform(self, action: facts.Action) -> None:
        match action:
            case facts.Prove() | facts.Exchange(proof=None) if self._is_leaving:
                pass  # it would only be given up; the model that serves is freed at the end
            case facts.Exchange(proof=proof) if self._is_leaving:
                self._worker.submit(drop_proof, self._runtime, proof)
            case facts.Prove(state=state, reload=reload):
                self._give_up = give_up = threading.Event()
                self._jobs.put_nowait(lambda: prove(self._runtime, state, give_up, reload=reload))
            case facts.Exchange(state=state, proof=proof):
                self._give_up = give_up = threading.Event()
                old = self._retire_model()
                self._jobs.put_nowait(lambda: exchange(self._runtime, old, state, proof, give_up))
            case facts.UseSettings(state=state):
                self._use(state)
            case facts.GiveUp():
                self._give_up.set()
            case facts.DropProof(proof=proof):
                self._worker.submit(drop_proof, self._runtime, proof)

    def _retire_model(self) -> LoadedModel | None:
        """The model takes no more requests; whoever gets it closes it."""
        if self._desk is not None:
            self._desk.use(None)
        model, self._model = self._model, None
        return model

    def _open_or_close_desk(self) -> None:
        if self._desk is not None:
            self._desk.set_open(self._swap.accepting and not self._is_leaving)

    def _use(self, state: AgentDesiredState) -> None:
        if self._desk is not None and self._model is not None:
            self._desk.use(Service(self._model, state.inference_parameters.sampling()))
