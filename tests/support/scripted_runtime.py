"""A model runtime without llama.cpp: the real engine thread and scheduler over a scripted backend."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.core.backend import BackendLimits, ConstraintMatcher
from agent.core.commands import EngineCommand
from agent.core.scheduler import SchedulerSettings
from agent.core.statistics import CompilerStatistics
from agent.core.swap_events import Problem, Proof, Proved
from agent.engine.thread import EngineCallbacks, EngineThread
from agent.llama_loaded_model import EngineOutlet
from agent.model_port import KeepLoading, LoadedModel, LoadGivenUpError
from agent.swap_jobs import model_path_of
from shared.agent_status import AgentIssue, IssueKind
from shared.desired_state import AgentDesiredState
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText
from tests.support.scripted_backend import (
    VOCABULARY_SIZE,
    ScriptedBackend,
    ScriptedVocabulary,
    scripted_backend,
)
from tests.support.scripted_constraint import ConstraintScript

JOIN_SECONDS = 10.0


class ScriptedReader:
    """The scripted vocabulary as a prompt reader."""

    size = VOCABULARY_SIZE
    adds_bos = False
    bos_token = None

    def tokenize(self, text: str, *, parse_special: bool = True) -> list[int]:
        return ScriptedVocabulary().tokenize(text, add_special=False, parse_special=parse_special)

    def detokenize(self, tokens: Sequence[int], *, shows_special: bool, spaces_special: bool = False) -> bytes:
        return b"".join(map(ScriptedVocabulary().token_piece, tokens))


class ScriptedConstraints:
    """The constraint `n` leaves answers of n tokens, some of them forced; other texts are refused."""

    def compile(self, constraint: ConstraintText) -> ConstraintMatcher | Failure:
        if not constraint.text.isdecimal():
            return Failure(FailureKind.GRAMMAR_INITIALIZATION, "line 1, column 1: this is not a number", "grammar")
        return ConstraintScript(length=int(constraint.text)).matcher()

    def statistics(self) -> CompilerStatistics:
        return CompilerStatistics()


class ScriptedModel:
    """`LoadedModel` over a scripted backend."""

    def __init__(self, path: str, backend: ScriptedBackend, slots: int, outlet: EngineOutlet) -> None:
        self.model_path = path
        self.metadata = {"general.name": path, "general.architecture": "scripted"}
        self.reader = ScriptedReader()
        self.adapters: frozenset[str] = frozenset()
        self.constraints = ScriptedConstraints()
        self.backend = backend
        self.is_closed = False
        self._engine = EngineThread(
            backend,
            ScriptedVocabulary(),
            SchedulerSettings(slots, prompt_chunk_tokens=8, lone_prompt_chunk_tokens=8),
            EngineCallbacks(
                publish=outlet.publish,
                crashed=lambda error: outlet.crashed(self, f"the engine failed: {type(error).__name__}"),
            ),
            time.monotonic,
        )
        self._engine.start()

    @property
    def limits(self) -> BackendLimits:
        return self.backend.limits

    @property
    def is_idle(self) -> bool:
        return self._engine.is_idle

    @property
    def last_advance(self) -> float:
        return self._engine.last_advance

    def submit(self, command: EngineCommand) -> None:
        self._engine.submit(command)

    def close(self) -> None:
        self._engine.stop()
        assert self._engine.join(JOIN_SECONDS), "the engine did not stop"
        self.backend.close()
        self.is_closed = True


@dataclass
class ScriptedRuntime:
    """Every path exists, save those in `missing` and `broken`. `may_decode` holds all decodes while it is not set."""

    outlet: EngineOutlet
    slots: int
    missing: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    models: list[ScriptedModel] = field(default_factory=list)
    may_load: threading.Event = field(default_factory=threading.Event)
    may_decode: threading.Event = field(default_factory=threading.Event)
    crash_next_decode: bool = False
    load_fraction: float = 0.0  # how far a load is said to be while `may_load` holds it

    def __post_init__(self) -> None:
        self.may_load.set()
        self.may_decode.set()

    def prove(self, state: AgentDesiredState, keep_loading: KeepLoading, *, reload: bool) -> Proved | Problem:
        path = model_path_of(state)
        if path in self.missing:
            issue = AgentIssue(kind=IssueKind.MODEL_FILE_DOES_NOT_EXIST, model_path=path, detail="no such file")
            return Problem((issue,), may_pass=True)
        return Proved(path)

    def load(self, state: AgentDesiredState, proof: Proof, keep_loading: KeepLoading) -> LoadedModel | Problem:
        while not self.may_load.wait(0.005):
            self.outlet.load_progress(self.load_fraction)
            if not keep_loading():
                raise LoadGivenUpError
        path = model_path_of(state)
        if path in self.broken:
            issue = AgentIssue(kind=IssueKind.MODEL_CANNOT_BE_LOADED, model_path=path, detail="broken")
            return Problem((issue,), may_pass=True)
        backend = scripted_backend(cells=512, batch=32, ids=self.slots + 2, request_limit=200)
        backend.on_decode = lambda plan: self._on_decode()
        model = ScriptedModel(path, backend, self.slots, self.outlet)
        self.models.append(model)
        return model

    def drop_proof(self, proof: Proof) -> None:
        """Nothing to free."""

    def _on_decode(self) -> None:
        assert self.may_decode.wait(60.0), "the test never let the engine go on"
        if self.crash_next_decode:
            self.crash_next_decode = False
            raise RuntimeError("the scripted backend crashes")
