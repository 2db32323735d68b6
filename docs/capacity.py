"""Estimates to begin with, explained in docs/capacity.md: `python -m docs.capacity memory MODEL.gguf` for an agent, and
`python -m docs.capacity slots ...` for a load. The first reads the file's header only.
"""

import argparse
import math
import sys
from dataclasses import dataclass

from agent.model_files.errors import ModelFileError
from agent.model_files.header import GgufHeader, read_header

CELL_PADDING_TOKENS = 256  # llama.cpp rounds a context up to this
SPARE_OUTPUT_ROWS = 4  # beyond the slots: warm-up, and prefixes that are evaluated on nobody's behalf
PROCESS_BYTES = 150 << 20  # 120 MiB measured with the demo model; wide layers need larger compute buffers
CACHE_BITS = {
    **{"F32": 32, "F16": 16, "BF16": 16, "Q8_0": 8.5},
    **{"Q5_1": 6, "Q5_0": 5.5, "Q4_1": 5, "Q4_0": 4.5, "IQ4_NL": 4.5},
}
MIB = 1 << 20


class NotTold(Exception):
    """The header does not say what the formula needs; `str()` names it."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """Of one layer's keys and values, in numbers per token."""

    layers: int
    heads: int
    key_width: int
    value_width: int

    def bytes_per_token(self, key_type: str, value_type: str) -> float:
        """Of all layers."""
        bits = self.key_width * CACHE_BITS[key_type] + self.value_width * CACHE_BITS[value_type]
        return self.layers * self.heads * bits / 8


@dataclass(frozen=True, slots=True)
class Load:
    """What clients ask for in the busiest minute. Tokens are those of one request; `shared_tokens`: of its prompt, the
    same for all. Rates are measured, in tokens per second while the agent is full."""

    requests_per_second: float
    prompt_tokens: int
    shared_tokens: int
    answer_tokens: int
    prompt_rate: float
    stream_rate: float
    slots_per_agent: int


def main(arguments: list[str]) -> int:
    """0: printed. 1: the file does not tell; a sentence says what."""
    given = _parser().parse_args(arguments)
    if given.what == "slots":
        fields = {name: getattr(given, name) for name in Load.__dataclass_fields__}
        print(slots_report(Load(**fields)))
        return 0
    try:
        header = read_header(given.model)
        shape = cache_shape(header)
    except (ModelFileError, NotTold) as problem:
        print(f"python -m docs.capacity: {problem}", file=sys.stderr)
        return 1
    per_token = shape.bytes_per_token(given.k_cache_dtype, given.v_cache_dtype)
    print(memory_report(header, per_token, given.slots, given.context_size))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m docs.capacity", description=__doc__)
    whats = parser.add_subparsers(dest="what", required=True)
    memory = whats.add_parser("memory", help="of one agent")
    memory.add_argument("model", help="a GGUF file; of a split model the first part")
    memory.add_argument("--slots", type=int, default=4, help="--slots of the agent (4)")
    memory.add_argument("--context-size", type=int, default=8192, help="of the desired state, in tokens (8192)")
    memory.add_argument("--k-cache-dtype", choices=CACHE_BITS, default="F16", help="of the desired state (F16)")
    memory.add_argument("--v-cache-dtype", choices=CACHE_BITS, default="F16", help="of the desired state (F16)")
    slots = whats.add_parser("slots", help="of the whole fleet, and how many agents that is")
    slots.add_argument("--requests-per-second", type=float, required=True, help="in the busiest minute")
    slots.add_argument("--prompt-tokens", type=int, required=True, help="of one request")
    slots.add_argument("--shared-tokens", type=int, default=0, help="of them, the same beginning for all (0)")
    slots.add_argument("--answer-tokens", type=int, required=True, help="of one request")
    slots.add_argument("--prompt-rate", type=float, required=True, help="prompt tokens a second, measured")
    slots.add_argument("--stream-rate", type=float, required=True, help="tokens a second of one stream, measured")
    slots.add_argument("--slots-per-agent", type=int, required=True, help="with which that was measured")
    return parser


def cache_shape(header: GgufHeader) -> CacheShape:
    """Raises NotTold, also for models whose layers differ: those list a number for each."""
    heads = _number(header, "attention.head_count")
    width = _number(header, "embedding_length") // heads
    return CacheShape(
        layers=_number(header, "block_count"),
        heads=_number(header, "attention.head_count_kv", heads),
        key_width=_number(header, "attention.key_length", width),
        value_width=_number(header, "attention.value_length", width),
    )


def _number(header: GgufHeader, key: str, otherwise: int | None = None) -> int:
    value = header.metadata.get(f"{header.architecture}.{key}", otherwise)
    if not isinstance(value, int) or value < 1:
        raise NotTold(f"{header.path} does not tell {header.architecture}.{key} as one number")
    return value


def memory_report(header: GgufHeader, bytes_per_token: float, slots: int, context_size: int) -> str:
    """Some lines for a person."""
    cells = -(-context_size // CELL_PADDING_TOKENS) * CELL_PADDING_TOKENS
    rows, vocabulary = slots + SPARE_OUTPUT_ROWS, header.vocabulary_size or 0
    parts = {
        "weights, as large as the file": header.file_bytes * header.split_count,
        f"cache: {cells:,} tokens of {bytes_per_token / 1024:.1f} KiB": cells * bytes_per_token,
        f"output rows: {rows} of the vocabulary's {vocabulary:,} x 4 bytes": rows * vocabulary * 4,
        "the process itself, about": PROCESS_BYTES,
    }
    parts["together"] = sum(parts.values())
    limit = min(context_size, header.context_length or context_size)
    lines = [f"{name:<58}{size / MIB:>9,.0f} MiB" for name, size in parts.items()]
    lines.append(f"One request may use {limit:,} tokens; {slots} at once have {cells // slots:,} each, sharing aside.")
    return "\n".join(lines)


def slots_report(load: Load) -> str:
    """Little's law, and what follows."""
    own = load.prompt_tokens - load.shared_tokens
    seconds = own / load.prompt_rate + load.answer_tokens / load.stream_rate
    slots = math.ceil(load.requests_per_second * seconds)
    agents = math.ceil(slots / load.slots_per_agent)
    pool = load.shared_tokens + load.slots_per_agent * (own + load.answer_tokens)
    return "\n".join(
        [
            f"seconds per request      {seconds:.1f}",
            f"slots                    {slots}",
            f"agents                   {agents} of {load.slots_per_agent} slots, and one to spare: {agents + 1}",
            f"context_size             {pool:,} at least; twice that leaves room for other beginnings",
            f"--max-buffered-requests  {math.ceil(slots * 10 / seconds)}, if clients wait for 10 s",
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
