"""The port between the agent's process and whatever loads models and runs them (llama.cpp, or a script in tests)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from agent.core.backend import BackendLimits, ConstraintMatcher
from agent.core.commands import EngineCommand
from agent.core.statistics import CompilerStatistics
from agent.core.swap_events import Problem, Proof, Proved
from shared.desired_state import AgentDesiredState
from shared.failures import Failure
from shared.messages_to_agent import ConstraintText

KeepLoading = Callable[[], bool]
"""Asked by the working thread now and then; False gives the proof or the load up."""


class LoadGivenUpError(Exception):
    """The proof or the load was ended because it was asked to."""


class PromptReader(Protocol):
    """Text to token ids. Callable from any thread, also while the model is being closed."""

    @property
    def size(self) -> int:
        """Tokens in the vocabulary."""

    @property
    def adds_bos(self) -> bool:
        """Whether the model's metadata asks for a BOS token in front of each prompt."""

    @property
    def bos_token(self) -> int | None: ...

    def tokenize(self, text: str, *, parse_special: bool = True) -> list[int]:
        """Token ids of `text`, nothing added; with `parse_special` names of control tokens become those tokens.
        Raises ValueError for what cannot be tokenised, RuntimeError when the model was closed."""

    def detokenize(self, tokens: Sequence[int], *, shows_special: bool, spaces_special: bool = False) -> bytes:
        """The bytes that tokens of the vocabulary stand for; with `shows_special` control tokens as they are spelled,
        else nothing; with `spaces_special` a space between two of those in a row. Raises RuntimeError when the model
        was closed."""


class ConstraintSource(Protocol):
    """From a client's constraint to a matcher for its request. Callable from any thread."""

    def compile(self, constraint: ConstraintText) -> ConstraintMatcher | Failure:
        """A matcher of the caller's own, at its start; or a failure that is the request's own. Blocks, for a second
        or so at most."""

    def statistics(self) -> CompilerStatistics:
        """What it has compiled so far. Never blocks; may be asked after the model was closed."""


class LoadedModel(Protocol):
    """A model that serves: weights, context and the engine's thread."""

    @property
    def model_path(self) -> str: ...

    @property
    def limits(self) -> BackendLimits: ...

    @property
    def metadata(self) -> Mapping[str, str]: ...

    @property
    def reader(self) -> PromptReader: ...

    @property
    def constraints(self) -> ConstraintSource: ...

    @property
    def adapters(self) -> frozenset[str]:
        """Names of the LoRA adapters that are loaded with it."""

    def submit(self, command: EngineCommand) -> None:
        """Put a command into the engine's inbox. Never blocks. Ignored when the engine has ended."""

    @property
    def is_idle(self) -> bool:
        """Whether the engine has nothing to do."""

    @property
    def last_advance(self) -> float:
        """When the engine last advanced, in seconds of the monotonic clock; of no meaning while idle."""

    def close(self) -> None:
        """End the engine, free context and weights. Blocks; idempotent."""


class ModelRuntime(Protocol):
    """Proves and loads. Every method blocks and is called from worker threads, one at a time."""

    def prove(self, state: AgentDesiredState, keep_loading: KeepLoading, *, reload: bool) -> Proved | Problem:
        """Whether the state would work, without touching the model that serves. Without `reload` only its template
        and what else needs no weights is looked at. Raises LoadGivenUpError."""

    def load(self, state: AgentDesiredState, proof: Proof, keep_loading: KeepLoading) -> LoadedModel | Problem:
        """Load the weights, make the context, start the engine. Uses the proof up. Raises LoadGivenUpError."""

    def drop_proof(self, proof: Proof) -> None:
        """Free what an unused proof holds."""
