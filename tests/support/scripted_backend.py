"""A backend without a model whose answers depend on its cells, so that a wrong cell or position gives a wrong token.

Each cell keeps a digest of what was visible when it was evaluated: token, position, and the cells of its own
sequence before it, as attention would. The next token is a function of the last cell's digest. So an answer is right
only if every cell on the way was: `expected_answer` computes it from the tokens alone.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from agent.core.backend import (
    HIGHEST_SEQUENCE_ID,
    BackendLimits,
    BatchPlan,
    DecodeOutcome,
    LogprobsWanted,
    SavedCells,
)
from shared.generation import SamplingParameters

END_TOKEN = 0
VOCABULARY_SIZE = 97
BYTES_A_TOKEN = 10


@dataclass(slots=True, eq=False)
class Cell:
    """One position of one or several sequences."""

    position: int
    digest: int
    holders: set[int]


@dataclass(frozen=True, slots=True)
class ScriptedFailure:
    """What the next decode does instead of succeeding; after ABORTED and FATAL `finished_rows` stay in memory."""

    outcome: DecodeOutcome
    finished_rows: int = 0


def digest(token: int, position: int, before: Iterable[tuple[int, int]], adapter: str | None = None) -> int:
    """What a cell becomes: `before` are (position, digest) of the cells it can see, in order of position."""
    weights = () if adapter is None else tuple(adapter.encode())
    return hash((token, position, tuple(before), *weights))


def token_of(last_digest: int) -> int:
    """The token that a greedy sampler draws after a cell."""
    return last_digest % VOCABULARY_SIZE


def draw(last_digest: int, allowed: frozenset[int] | None) -> int | None:
    """What a greedy sampler draws of a row that may be masked; None when nothing is allowed."""
    if allowed is None:
        return token_of(last_digest)
    return sorted(allowed)[last_digest % len(allowed)] if allowed else None


class ScriptedRow(int):
    """A row of logits: the digest of the cell it comes from. A constraint's mask writes what it allows into it."""

    allowed: frozenset[int] | None = None


def expected_answer(
    prompt: Sequence[int], max_tokens: int, request_limit_tokens: int, adapter: str | None = None
) -> tuple[int, ...]:
    """The answer that the tokens alone determine (the end token, where it comes, left out)."""
    cells: list[tuple[int, int]] = []
    tokens = list(prompt)
    while True:
        for position in range(len(cells), len(tokens)):
            cells.append((position, digest(tokens[position], position, cells, adapter)))
        token = token_of(cells[-1][1])
        if token == END_TOKEN:
            break
        tokens.append(token)
        if len(tokens) - len(prompt) >= max_tokens or len(tokens) >= request_limit_tokens:
            break
    return tuple(tokens[len(prompt) :])


def prompt_with_answer(length: int, answer_tokens: int, salt: int = 0) -> list[int]:
    """A prompt of `length` tokens whose answer does not end before `answer_tokens`. Other salts: other prompts."""
    for attempt in range(salt * 200, salt * 200 + 200):
        prompt = [1 + (attempt * 31 + index * 7) % 89 for index in range(length - 1)] + [1 + attempt % 96]
        if len(expected_answer(prompt, answer_tokens, 10**6)) == answer_tokens:
            return prompt
    raise AssertionError("no such prompt")


class GreedySampler:
    """Draws what the cells and a constraint's temperature say, of what a mask left; remembers what it observed."""

    def __init__(self) -> None:
        self.temperature: float | None = None
        self.observed: list[int] = []
        self.draws: list[int] = []

    def observe(self, tokens: Sequence[int]) -> None:
        self.observed.extend(tokens)

    def sample(self, logits: ScriptedRow, answer_index: int) -> int | None:
        self.draws.append(answer_index)
        return draw(int(logits) + int(self.temperature or 0), logits.allowed)

    def use_temperature(self, temperature: float | None) -> None:
        self.temperature = temperature

    def sure_token(self, logits: ScriptedRow) -> int | None:
        return None  # what it draws depends on what a mask left

    def forbid(self, logits: ScriptedRow, tokens: Collection[int]) -> None:
        allowed = frozenset(range(VOCABULARY_SIZE)) if logits.allowed is None else logits.allowed
        logits.allowed = allowed.difference(tokens) or allowed


class ScriptedReading:
    """Log-probabilities that name the row they come from: -(digest % 1000) - token / 1000."""

    def __init__(self, row: ScriptedRow, wanted: LogprobsWanted) -> None:
        self._row = int(row)
        self.top = [(token, self.of(token)) for token in range(wanted.top_count)]
        self.asked = [(token, self.of(token)) for token in wanted.token_ids]

    def of(self, token: int) -> float:
        return -float(self._row % 1000) - token / 1000


class ScriptedVocabulary:
    """Token n is the character with code 33 + n; END_TOKEN ends an answer."""

    size = VOCABULARY_SIZE
    adds_bos = False
    bos_token = None

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return [ord(character) - 33 for character in text]

    def token_piece(self, token: int) -> bytes:
        return bytes([33 + token]) if token < 90 else "é".encode()[token % 2 : token % 2 + 1]

    def token_text(self, token: int) -> str:
        return "<end>" if token == END_TOKEN else f"<{token}>"

    def is_end_of_generation(self, token: int) -> bool:
        return token == END_TOKEN

    @property
    def end_of_generation_tokens(self) -> frozenset[int]:
        return frozenset({END_TOKEN})


@dataclass(slots=True)
class ScriptedBackend:
    """Faithful to llama.cpp in what the scheduler can see: cells, positions, the five outcomes, unreadable logits.

    `failures` are used up by the next decodes. `on_decode` is called first (a test may block or raise there).
    """

    limits: BackendLimits
    failures: deque[ScriptedFailure] = field(default_factory=deque)
    new_sampler_for: Callable[[SamplingParameters, int], GreedySampler] | None = None
    on_decode: Callable[[BatchPlan], None] | None = None
    cells: list[Cell] = field(default_factory=list)
    plans: list[BatchPlan] = field(default_factory=list)
    outcomes: list[DecodeOutcome] = field(default_factory=list)
    copies: int = 0
    forgets_from: int | None = None  # cells from this position on cannot be saved
    abort_requests: int = 0
    abort_requested: bool = False
    is_closed: bool = False
    _rows: list[int] | None = None

    # Decoding

    def decode(self, plan: BatchPlan) -> DecodeOutcome:
        self._rows = None
        self._check(plan)
        self.plans.append(plan)
        if self.on_decode is not None:
            self.on_decode(plan)
        outcome = self._evaluate(plan)
        self.outcomes.append(outcome)
        return outcome

    def logits(self, row: int) -> ScriptedRow:
        if self._rows is None:
            raise AssertionError("logits were read after a decode that did not succeed")
        return ScriptedRow(self._rows[row])

    def new_sampler(self, parameters: SamplingParameters, seed: int) -> GreedySampler:
        return self.new_sampler_for(parameters, seed) if self.new_sampler_for else GreedySampler()

    def read_logprobs(self, logits: ScriptedRow, wanted: LogprobsWanted) -> ScriptedReading:
        assert logits.allowed is None, "log-probabilities are the model's own: read before any mask"
        return ScriptedReading(logits, wanted)

    def _check(self, plan: BatchPlan) -> None:
        if not 0 < plan.tokens <= self.limits.batch_tokens:
            raise ValueError(f"a batch of {plan.tokens} rows")
        if sum(run.wants_logits for run in plan.runs) > 32:
            raise ValueError("more than 32 rows with logits")
        if len({run.sequence_id for run in plan.runs}) != len(plan.runs):
            raise ValueError("a sequence has two runs")
        for run in plan.runs:
            if not run.tokens or not 0 <= run.sequence_id < self.limits.sequence_ids:
                raise ValueError(f"bad run {run}")
            if run.first_position + len(run.tokens) > self.limits.request_limit_tokens:
                raise ValueError(f"{run} goes beyond the request limit")
            if run.first_position != self.evaluated_tokens(run.sequence_id):
                raise ValueError(f"positions of {run} have a gap or an overlap")

    def _evaluate(self, plan: BatchPlan) -> DecodeOutcome:
        failure = self.failures.popleft() if self.failures else None
        if self.abort_requested:
            failure = ScriptedFailure(DecodeOutcome.ABORTED)
        if failure and failure.outcome is DecodeOutcome.INVALID_BATCH:
            return failure.outcome
        no_room = plan.tokens > self.limits.context_cells - len(self.cells)
        if no_room or (failure and failure.outcome is DecodeOutcome.NO_KV_SLOT):
            return DecodeOutcome.NO_KV_SLOT
        rows: list[int] = []
        left = failure.finished_rows if failure else plan.tokens
        for run in plan.runs:
            added = [
                self._add_cell(run.sequence_id, run.first_position + offset, token, plan.adapter)
                for offset, token in enumerate(run.tokens[:left])
            ]
            left = max(0, left - len(run.tokens))
            if run.wants_logits and not failure:
                rows += added[-run.wants_logits :]
        if failure:
            return failure.outcome
        self._rows = rows
        return DecodeOutcome.DECODED

    def _add_cell(self, sequence_id: int, position: int, token: int, adapter: str | None = None) -> int:
        seen = sorted(
            (cell.position, cell.digest)
            for cell in self.cells
            if sequence_id in cell.holders and cell.position <= position
        )
        self.cells.append(Cell(position, digest(token, position, seen, adapter), {sequence_id}))
        return self.cells[-1].digest

    # Memory

    def copy_prefix(self, source: int, target: int, tokens: int) -> None:
        self._check_ids(source, target)
        if not self.limits.can_share_prefixes or source == target or self.evaluated_tokens(target):
            raise ValueError(f"cannot copy sequence {source} to {target}")
        self.copies += 1
        for cell in self.cells:
            if source in cell.holders and cell.position < tokens:
                cell.holders.add(target)

    def remove_from(self, sequence_id: int, position: int) -> bool:
        self._check_ids(sequence_id)
        if not self.limits.can_share_prefixes and 0 < position < self.evaluated_tokens(sequence_id):
            return False
        for cell in self.cells:
            if cell.position >= position:
                cell.holders.discard(sequence_id)
        self.cells = [cell for cell in self.cells if cell.holders]
        return True

    def evaluated_tokens(self, sequence_id: int) -> int:
        self._check_ids(sequence_id)
        return max((cell.position + 1 for cell in self.cells if sequence_id in cell.holders), default=0)

    def save_cells(self, source: int, start: int, stop: int, through: int) -> SavedCells | None:
        self._check_copy(through, 0 <= start < stop <= self.evaluated_tokens(source))
        if self.forgets_from is not None and stop > self.forgets_from:
            return None
        cells = [(cell.position, cell.digest) for cell in self.cells if source in cell.holders]
        content = tuple(sorted(cell for cell in cells if start <= cell[0] < stop))
        return SavedCells(start, stop, BYTES_A_TOKEN * len(content), content)

    def restore_cells(self, saved: SavedCells, target: int, stop: int, through: int) -> bool:
        held = self.evaluated_tokens(target)
        self._check_copy(through, saved.start <= held < stop <= saved.stop)
        if len(saved.content) > self.limits.context_cells - len(self.cells):
            return False
        self.cells += [Cell(position, value, {target}) for position, value in saved.content if held <= position < stop]
        return True

    def _check_copy(self, through: int, has_tokens: bool) -> None:
        may_copy = self.limits.can_save_cells and has_tokens
        if not may_copy or not 0 <= through < self.limits.sequence_ids or self.evaluated_tokens(through):
            raise ValueError("cells that cannot be copied")

    def _check_ids(self, *sequence_ids: int) -> None:
        if not all(0 <= one <= HIGHEST_SEQUENCE_ID for one in sequence_ids):
            raise ValueError(f"ids {sequence_ids}")

    def request_abort(self) -> None:
        self.abort_requests += 1
        self.abort_requested = True

    def clear_abort(self) -> None:
        self.abort_requested = False

    def close(self) -> None:
        self.is_closed = True


def scripted_backend(
    cells: int = 64,
    batch: int = 16,
    ids: int = 4,
    request_limit: int | None = None,
    can_share: bool = True,
) -> ScriptedBackend:
    """A backend with these limits; the request limit is the whole pool unless given."""
    return ScriptedBackend(
        BackendLimits(
            context_cells=cells,
            batch_tokens=batch,
            sequence_ids=ids,
            request_limit_tokens=request_limit or cells,
            vocabulary_size=VOCABULARY_SIZE,
            can_share_prefixes=can_share,
            can_save_cells=can_share,
        )
    )
