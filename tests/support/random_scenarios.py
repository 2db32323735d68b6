"""Scenarios for a scheduler at random, long and busy enough that much is guessed, set aside and taken back."""

from dataclasses import dataclass
from random import Random

from agent.core.backend import DecodeOutcome, LogprobsWanted
from tests.support.engine_driver import EngineDriver, RulesOfRequest
from tests.support.scripted_backend import VOCABULARY_SIZE, scripted_backend
from tests.support.scripted_constraint import ConstraintScript

_FAILURES = [DecodeOutcome.NO_KV_SLOT, DecodeOutcome.ABORTED, DecodeOutcome.FATAL, DecodeOutcome.INVALID_BATCH]
_LETTERS = [chr(code) for code in range(33, 123)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`actions` are those of test_scheduler_exactness.play. `is_quiet`: nothing fails and nobody cancels."""

    actions: list[tuple]
    is_quiet: bool
    cells: int
    batch: int
    slots: int
    chunk: int
    store_bytes: int
    draft_tokens: int
    request_limit: int

    @classmethod
    def of(cls, seed: int) -> "Scenario":
        random = Random(seed)
        is_quiet = random.random() < 0.5
        actions = [_action(random, first=number == 0, is_quiet=is_quiet) for number in range(random.randint(3, 25))]
        cells = random.choice([20, 33, 64, 120, 300])
        return cls(
            actions=actions,
            is_quiet=is_quiet,
            cells=cells,
            batch=random.choice([1, 2, 3, 8, 40]),
            slots=random.randint(1, 6),
            chunk=random.choice([1, 4, 16]),
            store_bytes=random.choice([0, 150, 600, 10**6]),
            draft_tokens=random.choice([1, 2, 7, 15, 31, 63]),
            request_limit=min(cells, random.choice([15, 40, 1000, 1000])),
        )

    def driver(self, draft_tokens: int) -> EngineDriver:
        """A fresh scheduler of these sizes."""
        backend = scripted_backend(self.cells, self.batch, ids=self.slots + 1, request_limit=self.request_limit)
        return EngineDriver(backend, self.slots, self.chunk, store_bytes=self.store_bytes, draft_tokens=draft_tokens)


def _action(random: Random, *, first: bool, is_quiet: bool) -> tuple:
    kind = random.random()
    if first or kind < 0.4:
        return (
            "submit",
            random.randint(0, 3),
            random.choice([1, 3, 8, 20, 30]),
            [random.randint(1, 4) for _ in range(random.choice([0, 0, 1, 3]))],
            random.choice([1, 2, 3, 7, 15, 50, 200]),
            random.randint(-1, 1),
            _script(random) if random.random() < 0.8 else None,
            _rules(random) if random.random() < 0.5 else None,
            random.choice([None, None, None, "a", "b"]),
        )
    if kind < 0.9 or is_quiet:
        return "step", random.randint(1, 9)
    return (
        ("cancel", random.randint(0, 8)) if kind < 0.95 else ("fail", random.choice(_FAILURES), random.randint(0, 25))
    )


def _script(random: Random) -> ConstraintScript:
    return ConstraintScript(
        salt=random.randint(0, 50),
        length=random.choice([1, 3, 8, 20, 40, 70]),
        forced_share=random.choice([0, 0, 3, 5, 8, 10]),
        may_end_early=random.random() < 0.3,
        breaks_at=random.choice([None, None, None, random.randint(0, 30)]),
    )


def _rules(random: Random) -> RulesOfRequest:
    texts = random.sample(_LETTERS, random.choice([0, 1, 5, 20])) if random.random() < 0.7 else ["é", "!$"]
    return RulesOfRequest.of(
        *texts,
        logprobs=LogprobsWanted(top_count=1) if random.random() < 0.05 else None,
        token_ids=frozenset(random.sample(range(VOCABULARY_SIZE), random.choice([0, 0, 3, 15]))),
        keeps_match=random.random() < 0.5,
        min_tokens=random.choice([0, 0, 1, 5, 20]),
        ignores_end=random.random() < 0.3,
    )
