"""Carries what the threads of engines and loads report to the event loop, one call per step."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol

from agent.core.events import StepReport
from agent.model_port import LoadedModel


class HearsOfSteps(Protocol):
    """Is told of each step of an engine."""

    def step(self, report: StepReport) -> None: ...


class HearsOfCrashes(Protocol):
    """Is told of an engine's end that nobody wanted."""

    def engine_crashed(self, model: LoadedModel, sentence: str) -> None: ...


class ThreadReports:
    """Its reporting side may be called from any thread, and never blocks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.load_fraction = 0.0  # of the model that is being loaded, or was last
        self._of_steps: Sequence[HearsOfSteps] = ()
        self._of_crashes: HearsOfCrashes | None = None

    def deliver_to(self, *of_steps: HearsOfSteps, of_crashes: HearsOfCrashes) -> None:
        """Who hears of it, in this order, within the loop. Once, before the first model is loaded."""
        self._of_steps, self._of_crashes = of_steps, of_crashes

    # From threads

    def load_progress(self, fraction: float) -> None:
        """From the thread that loads."""
        self.load_fraction = fraction

    def publish(self, report: StepReport) -> None:
        """From an engine's thread."""
        self._call(self._deliver_step, report)

    def crashed(self, model: LoadedModel, sentence: str) -> None:
        """From an engine's thread, after the ends of its requests were published."""
        self._call(self._deliver_crash, model, sentence)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        # The loop is closed when the process ends with a hung engine: then nobody is left to be told.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    # Within the loop

    def _deliver_step(self, report: StepReport) -> None:
        for one in self._of_steps:
            one.step(report)

    def _deliver_crash(self, model: LoadedModel, sentence: str) -> None:
        if self._of_crashes is not None:
            self._of_crashes.engine_crashed(model, sentence)
