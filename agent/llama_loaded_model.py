"""A model in memory with its engine running: what the rest of the agent sees of llama.cpp."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.core.backend import BackendLimits
from agent.core.commands import EngineCommand
from agent.core.events import StepReport
from agent.core.scheduler import SchedulerSettings
from agent.engine.thread import EngineCallbacks, EngineThread
from agent.freed_memory import give_back_freed_memory
from agent.llama.backend import LlamaBackend
from agent.llama.model import LlamaModel
from agent.llama.vocabulary import VocabularyLease
from agent.llama_constraints import LlamaConstraints
from agent.model_files.source import ResolvedModel
from agent.model_port import ConstraintSource, LoadedModel
from agent.prompt_chunk import choose_prompt_chunks

logger = logging.getLogger(__name__)

ENGINE_STOP_SECONDS = 30.0
"""A decode that runs is aborted within a micro-batch (0.3 s). An engine that takes longer than this hangs: its memory
is leaked, since freeing it under a running decode would end the process."""


@dataclass(frozen=True, slots=True)
class EngineOutlet:
    """Where engines and loads report to. Called from their threads; none may block. load_progress: 0 to 1."""

    publish: Callable[[StepReport], None]
    crashed: Callable[[LoadedModel, str], None]
    load_progress: Callable[[float], None] = lambda fraction: None


@dataclass(frozen=True, slots=True)
class ModelParts:
    """What a loaded model owns, in the order in which it was made."""

    resolved: ResolvedModel
    model: LlamaModel
    backend: LlamaBackend
    vocabulary: VocabularyLease
    constraints: LlamaConstraints
    adapters: frozenset[str] = frozenset()


class LlamaPromptReader:
    """Tokenises under a lease of its own, so that a worker may still be at it when the model is closed."""

    def __init__(self, lease: VocabularyLease) -> None:
        vocabulary = lease.vocabulary
        self._lease = lease
        self.size = vocabulary.size
        self.adds_bos = vocabulary.adds_bos
        self.bos_token = vocabulary.bos_token

    def tokenize(self, text: str, *, parse_special: bool = True) -> list[int]:
        """Token ids of `text`; nothing is added. Raises ValueError or RuntimeError."""
        with self._lease.vocabulary.lease() as own:
            return own.vocabulary.tokenize(text, add_special=False, parse_special=parse_special)

    def detokenize(self, tokens: Sequence[int], *, shows_special: bool, spaces_special: bool = False) -> bytes:
        """The bytes that the tokens stand for. Raises ValueError or RuntimeError."""
        with self._lease.vocabulary.lease() as own:
            piece, spelled = own.vocabulary.token_piece, own.vocabulary.token_text
            if not shows_special:
                return b"".join(map(piece, tokens))
            parts: list[bytes] = []
            ends_with_special = False
            for token in tokens:
                text = piece(token)
                if not text:
                    parts.append(b" " if spaces_special and ends_with_special else b"")
                parts.append(text or spelled(token).encode())
                ends_with_special = not text
            return b"".join(parts)


@dataclass(frozen=True, slots=True)
class EngineSize:
    """Requests at once, host memory for idle prefixes, and guessed tokens in one step: at most."""

    slots: int
    prefix_store_bytes: int
    draft_tokens: int


class LlamaLoadedModel:
    """Implements `LoadedModel`."""

    def __init__(self, parts: ModelParts, model_path: str) -> None:
        self._parts = parts
        self._engine: EngineThread | None = None
        self.model_path = model_path
        self.limits: BackendLimits = parts.backend.limits
        self.metadata: Mapping[str, str] = parts.resolved.header.metadata_as_text()
        self.reader = LlamaPromptReader(parts.vocabulary)
        self.constraints: ConstraintSource = parts.constraints
        self.adapters = parts.adapters

    def __repr__(self) -> str:
        return f"<LlamaLoadedModel {self.model_path}, {self._engine!r}>"

    @classmethod
    def start(
        cls, parts: ModelParts, size: EngineSize, outlet: EngineOutlet, clock: Callable[[], float]
    ) -> "LlamaLoadedModel":
        """Start the engine's thread over loaded parts. Measures the machine first, which decodes: to be called where
        the parts were loaded (`on_a_passing_thread`); takes some 0.1 s."""
        loaded = cls(parts, parts.resolved.path)
        chunks = choose_prompt_chunks(parts.backend, clock)
        settings = SchedulerSettings(
            size.slots, chunks.beside_answers, chunks.alone, size.prefix_store_bytes, size.draft_tokens
        )
        logger.info("%s: prompts are read in %s", loaded.model_path, chunks)
        callbacks = EngineCallbacks(
            publish=outlet.publish,
            crashed=lambda error: outlet.crashed(loaded, f"the engine failed: {type(error).__name__}"),
        )
        loaded._engine = EngineThread(parts.backend, parts.vocabulary.vocabulary, settings, callbacks, clock)
        loaded._engine.start()
        return loaded

    def submit(self, command: EngineCommand) -> None:
        """Put a command into the engine's inbox; never blocks."""
        assert self._engine is not None
        self._engine.submit(command)

    @property
    def is_idle(self) -> bool:
        """Whether the engine has nothing to do."""
        return self._engine is None or self._engine.is_idle

    @property
    def last_advance(self) -> float:
        """Clock reading of the engine's last step."""
        assert self._engine is not None
        return self._engine.last_advance

    def close(self) -> None:
        """End the engine, free context, weights and our hold on the vocabulary. Blocks; idempotent."""
        if self._engine is not None:
            self._engine.stop()
            if not self._engine.join(ENGINE_STOP_SECONDS):
                logger.error("the engine did not stop within %.0f s; its memory is not freed", ENGINE_STOP_SECONDS)
                return
        self._parts.backend.close()
        self._parts.model.close()
        self._parts.constraints.close()
        self._parts.vocabulary.release()
        give_back_freed_memory()
