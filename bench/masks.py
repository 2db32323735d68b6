"""What a constraint costs by itself: compiling it, asking for it again, and its masks over the model's vocabulary.

Nothing is decoded. Masks are made where a request at a temperature above 0 needs them: at each token not forced.
They are made along a document that a careful model would write, and along walks that draw any token the constraint
allows, frequent ones (small ids) rather. Each round compiles anew, so that its first walk meets a cold lexer.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.constraint.compiler import ConstraintCompiler
from agent.constraint.pristine import ConstraintWalk
from agent.llama.vocabulary import LlamaVocabulary
from agent.llama_constraints import open_constraint_vocabulary
from bench import protocol, report
from bench.constraints import CONSTRAINTS
from bench.documents import document_of, order
from shared.failures import Failure
from shared.messages_to_agent import ConstraintText

_ROUNDS = 5
_WALKS = 4
_FORCED_AT_ONCE = 32
_SCHEMA_BYTES = 10_000
_LONGEST_PIECE = 64
_MASK_MEDIAN_MS = report.Target(0.1, at_least=False)
_MASK_P99_MS = report.Target(5, at_least=False)
_COMPILE_MS = report.Target(50, at_least=False)
_CACHED_MS = report.Target(1, at_least=False)


def measure(model: protocol.Model, vocabulary: LlamaVocabulary) -> str:
    """One table."""
    bench = _Bench(vocabulary)
    rows = [bench.row(one.name, _text_of(one.ours["grammar"]), document_of(one.name)) for one in CONSTRAINTS]
    lines = _order_lines()
    schema = ConstraintText(kind="json_schema", text=json.dumps({"type": "object", "properties": lines}))
    rows.append(bench.row(f"json_schema of {_SCHEMA_BYTES // 1000} kB", schema, order(lines)))
    masks = [f"{walk} mask {part}" for walk in ("document:", "random walk:") for part in ("p50", "p99")]
    header = ["constraint", "compile", "again, with its first mask", *masks, "writing it p50", "masks"]
    return report.table(f"{model.name}: constraints alone, {vocabulary.size:,} tokens", header, rows)


@dataclass(frozen=True, slots=True)
class _Cost:
    """Milliseconds of one mask: until it is known, and until the row is cut to it."""

    computed: float
    written: float


class _Bench:
    """Walks over one vocabulary."""

    def __init__(self, vocabulary: LlamaVocabulary) -> None:
        self._vocabulary = vocabulary
        self._constrainable = open_constraint_vocabulary(vocabulary)

    def row(self, name: str, constraint: ConstraintText, document: str) -> list[str]:
        """The table's line of one constraint."""
        compile_ms: list[float] = []
        cached_ms: list[float] = []
        along: list[_Cost] = []
        at_random: list[_Cost] = []
        for seed in range(_ROUNDS):
            compiler = ConstraintCompiler(self._constrainable)
            compile_ms.append(_timed(compiler, constraint)[1])
            for _ in range(_WALKS):
                along += self._along(_timed(compiler, constraint)[0], document.encode())
            compiler.close()
            compiler = ConstraintCompiler(self._constrainable)
            compile_ms.append(_timed(compiler, constraint)[1])
            chance = np.random.default_rng(seed)
            for _ in range(_WALKS):
                at_random += self._at_random(_timed(compiler, constraint)[0], chance)
            cached_ms.append(_first_mask_ms(compiler, constraint, self._vocabulary.size))
            compiler.close()
        written = [cost.written for cost in along + at_random]
        return [
            name,
            f"{report.spread(compile_ms, ' ms')}, {_COMPILE_MS.verdict(median(compile_ms))}",
            f"{report.spread(cached_ms, ' ms', 2)}, {_CACHED_MS.verdict(median(cached_ms))}",
            *_masks(along),
            *_masks(at_random),
            f"{median(written):.3f} ms",
            f"{len(along)}, {len(at_random)}",
        ]

    def _along(self, matcher: ConstraintWalk, document: bytes) -> Iterator[_Cost]:
        """Masks where the document goes on; its tokens are found anew after each forced run."""
        pieces = self._vocabulary.token_piece
        row = np.zeros(self._vocabulary.size, dtype=np.float32)
        at = 0
        while at < len(document) and not matcher.is_finished:
            if forced := matcher.take_forced(_FORCED_AT_ONCE):
                at += sum(len(pieces(token)) for token in forced)
                continue
            yield _masked(matcher, row)
            ahead = document[at : at + _LONGEST_PIECE].decode(errors="ignore")
            token = self._vocabulary.tokenize(ahead, add_special=False, parse_special=False)[0]
            if not document.startswith(pieces(token), at) or not matcher.accept(token):
                raise SystemExit(f"a document of the benchmark is not what its constraint allows, at byte {at}")
            at += len(pieces(token))

    def _at_random(self, matcher: ConstraintWalk, chance: np.random.Generator) -> Iterator[_Cost]:
        size = self._vocabulary.size
        frequency = -np.log(np.arange(1, size + 1, dtype=np.float32))
        tokens = 0
        while tokens < protocol.OUTPUT_TOKENS and not matcher.is_finished:
            if forced := matcher.take_forced(_FORCED_AT_ONCE):
                tokens += len(forced)
                continue
            row = frequency + chance.gumbel(size=size).astype(np.float32)
            yield _masked(matcher, row)
            tokens += 1
            if not matcher.accept(int(row.argmax())):
                break  # the end


def _masked(matcher: ConstraintWalk, row: NDArray[np.float32]) -> _Cost:
    began = time.perf_counter()
    matcher.allows_any()
    computed = time.perf_counter()
    if not matcher.mask(row):  # the library remembers what it has just computed
        raise SystemExit("a constraint of the benchmark broke")
    return _Cost(1e3 * (computed - began), 1e3 * (time.perf_counter() - computed))


def _masks(costs: list[_Cost]) -> Iterator[str]:
    computed = [cost.computed for cost in costs]
    p99 = quantiles(computed, n=100)[98]
    yield f"{median(computed):.3f} ms, {_MASK_MEDIAN_MS.verdict(median(computed))}"
    yield f"{p99:.2f} ms, {_MASK_P99_MS.verdict(p99)}"


def _timed(compiler: ConstraintCompiler, constraint: ConstraintText) -> tuple[ConstraintWalk, float]:
    began = time.perf_counter()
    matcher = compiler.compile(constraint)
    if isinstance(matcher, Failure):
        raise SystemExit(f"a constraint of the benchmark was refused: {matcher.message}")
    return matcher, 1e3 * (time.perf_counter() - began)


def _first_mask_ms(compiler: ConstraintCompiler, constraint: ConstraintText, size: int) -> float:
    row = np.zeros(size, dtype=np.float32)
    matcher, compile_ms = _timed(compiler, constraint)
    began = time.perf_counter()
    matcher.mask(row)
    return compile_ms + 1e3 * (time.perf_counter() - began)


def _text_of(grammar: dict[str, Any]) -> ConstraintText:
    """As the balancer would hand it on."""
    text = grammar.get("grammar") or grammar.get("pattern") or json.dumps(grammar["schema"])
    return ConstraintText(kind=grammar["type"], text=text, root=grammar.get("root"))


def _order_lines() -> dict[str, Any]:
    """An order form with as many kinds of lines as fill the size."""
    lines: dict[str, Any] = {}
    while len(json.dumps(lines)) < _SCHEMA_BYTES:
        lines[f"line_{len(lines):03}"] = {
            "type": "object",
            "properties": {
                "article": {"type": "string", "minLength": 1, "maxLength": 40},
                "count": {"type": "integer", "minimum": 1, "maximum": 500},
                "unit": {"enum": ["piece", "metre", "kilogram", "litre"]},
                "price": {"type": "number", "minimum": 0},
            },
            "required": ["article", "count"],
            "additionalProperties": False,
        }
    return lines
