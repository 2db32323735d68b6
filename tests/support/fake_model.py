"""A model that runs nothing: it keeps the commands it gets, and a test says what came of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.core.backend import BackendLimits, ConstraintMatcher
from agent.core.commands import EngineCommand
from agent.core.events import EngineEvent, SchedulerStatistics, StepReport
from agent.core.statistics import CompilerStatistics
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText
from tests.support.scripted_constraint import ConstraintScript

BOS = 1


@dataclass
class FakeReader:
    """One token per character: its code, plus 10."""

    size: int = 1000
    adds_bos: bool = False
    bos_token: int | None = None
    error: Exception | None = None
    parsed_special: bool | None = None

    def tokenize(self, text: str, *, parse_special: bool = True) -> list[int]:
        self.parsed_special = parse_special
        if self.error is not None:
            raise self.error
        return [BOS if character == "^" else 10 + ord(character) % 900 for character in text]

    def detokenize(self, tokens: Sequence[int], *, shows_special: bool, spaces_special: bool = False) -> bytes:
        bos = "^" if shows_special else ""
        text = "".join(bos if one == BOS else chr(one - 10) for one in tokens)
        return (text.replace("^^", "^ ^") if spaces_special else text).encode()


@dataclass
class FakeConstraints:
    """The text `bad` is refused, every other has a matcher of its own; `error` is raised instead."""

    asked: list[ConstraintText] = field(default_factory=list)
    error: Exception | None = None
    counted: CompilerStatistics = field(default_factory=CompilerStatistics)

    def compile(self, constraint: ConstraintText) -> ConstraintMatcher | Failure:
        self.asked.append(constraint)
        if self.error is not None:
            raise self.error
        if constraint.text == "bad":
            return Failure(FailureKind.GRAMMAR_INITIALIZATION, "line 1, column 1: this is bad", "grammar")
        return ConstraintScript().matcher()

    def statistics(self) -> CompilerStatistics:
        return self.counted


@dataclass(eq=False)
class FakeModel:
    """`LoadedModel` without an engine."""

    model_path: str = "/models/a.gguf"
    reader: FakeReader = field(default_factory=FakeReader)
    constraints: FakeConstraints = field(default_factory=FakeConstraints)
    metadata: dict[str, str] = field(default_factory=lambda: {"general.name": "fake"})
    commands: list[EngineCommand] = field(default_factory=list)
    is_idle: bool = True
    last_advance: float = 0.0
    is_closed: bool = False
    request_limit_tokens: int = 100
    adapters: frozenset[str] = frozenset()

    @property
    def limits(self) -> BackendLimits:
        return BackendLimits(
            context_cells=256,
            batch_tokens=64,
            sequence_ids=8,
            request_limit_tokens=self.request_limit_tokens,
            vocabulary_size=self.reader.size,
            can_share_prefixes=True,
        )

    def submit(self, command: EngineCommand) -> None:
        assert not self.is_closed, "a command for a closed model"
        self.commands.append(command)

    def close(self) -> None:
        self.is_closed = True


def step_report(*events: EngineEvent) -> StepReport:
    """A report with these events; 7 cells are in use."""
    return StepReport(events, SchedulerStatistics(0, 0, 0, 7, 256, 3, 0, 0, 0, 0, 0, 0))
