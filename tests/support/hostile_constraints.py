"""Constraints that try to crash, stall or fill the process that compiles them; run as a program, it compiles them.

    python -m tests.support.hostile_constraints

prints one line of JSON for each: what came of it, after how many seconds on the clock, and by how many MB the process
was larger meanwhile than before, also while a compile that was given up ran on.
"""

import json
import re
import time
from pathlib import Path
from typing import Any

from agent.constraint.compiler import TAKES_TOO_LONG, ConstraintCompiler
from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary
from shared.failures import Failure
from shared.messages_to_agent import ConstraintText
from tests.support import budgets
from tests.support.tokenizer_forms import demo_vocabulary

LEFT_ALONE_SECONDS = 30.0
_DEEP = 60_000


def _gbnf_chain(length: int) -> str:
    rules = [f'r{number} ::= "a" r{number + 1} | "b"' for number in range(length)]
    return "\n".join(["root ::= r0", *rules, f'r{length} ::= "c"'])


def _nested_objects(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def _reference_chain(length: int, body: str) -> str:
    definitions = {f"r{number}": json.loads(body % (number + 1)) for number in range(length)}
    return json.dumps({"$ref": "#/$defs/r0", "$defs": {**definitions, f"r{length}": {"type": "string"}}})


_OBJECT = '{"type": "object", "properties": {"a": {"$ref": "#/$defs/r%d"}}, "required": ["a"]}'
_SCHEMAS: dict[str, Any] = {
    "objects 200 deep": _nested_objects(200),
    "not 60,000 deep": '{"not": ' * _DEEP + "{}" + "}" * _DEEP,
    "arrays 60,000 deep": "[" * _DEEP + "]" * _DEEP,
    "objects through 1,000 references": _reference_chain(1_000, _OBJECT),
    "10,000 references in a row": _reference_chain(10_000, '{"$ref": "#/$defs/r%d"}'),
    "enum of 100,000 numbers": {"enum": list(range(100_000))},
    "enum of 10,000 words": {"enum": [f"word {number * 7919}" for number in range(10_000)]},
    "const of a megabyte": {"const": "x" * 1_000_000},
    "pattern of optional parts": {"type": "string", "pattern": "a*b*" * 5_000},
    "pattern that backtracks": {"type": "string", "pattern": "^(a|a)*(a|aa)+$"},
    "lengths beyond counting": {"type": "string", "minLength": 10**20, "maxLength": 10**20},
    "items beyond counting": {"type": "array", "minItems": 10**9, "maxItems": 10**9},
    "number of 400 digits": {"type": "integer", "minimum": 10**399},
    "2,000 optional properties": {"properties": {f"p{number}": {"type": "string"} for number in range(2_000)}},
    "NUL": {"const": "a\0b"},
    "lone surrogate": '{"const": "\\ud800"}',
    "number beyond a double": '{"minimum": 1e999}',
    "refers to itself": {"$ref": "#"},
}
LONG_ONLY = (  # seconds each; what others like them show in less
    "schema, enum of 100,000 numbers",
    "schema, 2,000 optional properties",
    "regex, a megabyte of brackets",
    "gbnf, 100,000 words",
)
_GRAMMARS: dict[str, tuple[str, str]] = {
    "gbnf, groups 60,000 deep": ("gbnf", "root ::= " + "(" * _DEEP + '"a"' + ")" * _DEEP),
    "ebnf, groups 60,000 deep": ("ebnf", "root ::= " + "(" * _DEEP + '"a"' + ")" * _DEEP),
    "regex, groups 60,000 deep": ("regex", "(" * _DEEP + "a" + ")" * _DEEP),
    "tag, 20,000 deep": ("structural_tag", '{"type": "sequence", "elements": [' * 20_000),
    "gbnf, {5,0}": ("gbnf", 'root ::= "a"{5,0}'),
    "gbnf, 20 digits": ("gbnf", 'root ::= "a"{99999999999999999999}'),
    "ebnf, 20 digits": ("ebnf", 'root ::= "a"{1,99999999999999999999}'),
    "regex, 20 digits": ("regex", "a{99999999999999999999}"),
    "regex, nested counts": ("regex", "((a{0,1000}){0,1000}){0,1000}"),
    "regex, nested counts of words": ("regex", r"(\w{0,100}-?){0,100}"),
    "regex, a million letters": ("regex", "a{1000000}"),
    "regex, catastrophic": ("regex", r"(a*)*b|(a|a)*(a|aa)+|(.|\n)*a(.|\n){25}"),
    "regex, optional parts": ("regex", "a*b*" * 10_000),
    "gbnf, a literal of a megabyte": ("gbnf", 'root ::= "' + "x" * 1_000_000 + '"'),
    "gbnf, 100,000 words": ("gbnf", "root ::= " + "|".join(f'"{number}"' for number in range(100_000))),
    "gbnf, 4,000 rules in a chain": ("gbnf", _gbnf_chain(4_000)),
    "ebnf, ambiguous": ("ebnf", 'root ::= root root root | root root | "a" | ""'),
    "ebnf, doubling": (
        "ebnf",
        "\n".join(["root ::= r0", *(f"r{n} ::= r{n + 1} r{n + 1}" for n in range(40)), 'r40 ::= "a"']),
    ),
    "gbnf, NUL": ("gbnf", 'root ::= "a\0b"'),
    "gbnf, lone surrogate": ("gbnf", 'root ::= "\ud800"'),
    "gbnf, nothing": ("gbnf", ""),
    "regex, a megabyte of brackets": ("regex", "[" * 1_000_000),
    "over the size limit": ("regex", "é" * 600_000),
}


def constraints() -> dict[str, ConstraintText]:
    """By name, in the form (short or long) that this run of the tests has."""
    schemas = {
        name: ConstraintText(kind="json_schema", text=schema if isinstance(schema, str) else json.dumps(schema))
        for name, schema in _SCHEMAS.items()
    }
    # Not validated: msgpack cannot carry the lone surrogate here, so the agent's own check is what is tried.
    grammars = {
        name: ConstraintText.model_construct(kind=kind, text=text, root=None)
        for name, (kind, text) in _GRAMMARS.items()
    }
    found = {**{f"schema, {name}": schema for name, schema in schemas.items()}, **grammars}
    left_out = () if budgets.current().form == "long" else LONG_ONLY
    return {name: constraint for name, constraint in found.items() if name not in left_out}


def main() -> None:
    opened = demo_vocabulary()
    ends = tuple(sorted(opened.vocabulary.end_of_generation_tokens))
    limits = ConstraintLimits()
    compiler = ConstraintCompiler(ConstraintVocabulary(opened.form, opened.vocabulary.size, ends), limits)
    compiler.compile(ConstraintText(kind="regex", text="warm"))
    for name, constraint in constraints().items():
        _reset_peak()
        before = _memory_megabytes("VmRSS")
        started = time.monotonic()
        first = outcome = compiler.compile(constraint)
        seconds = time.monotonic() - started
        while isinstance(outcome, Failure) and outcome.message == TAKES_TOO_LONG:
            assert time.monotonic() - started < LEFT_ALONE_SECONDS, f"{name} never ends"
            time.sleep(0.01)
            outcome = compiler.compile(constraint)
        megabytes = _memory_megabytes("VmHWM") - before
        said = first.message if isinstance(first, Failure) else None
        print(json.dumps({"name": name, "refused": said, "seconds": seconds, "megabytes": megabytes}), flush=True)
    compiler.close()


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _memory_megabytes(what: str) -> float:
    found = re.search(rf"{what}:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    main()
