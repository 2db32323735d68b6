"""From a client's constraint to the text that llguidance compiles, whatever the language it was written in."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llguidance import LLMatcher

from agent.constraint.control_tokens import resolve_tokens
from agent.constraint.errors import ConstraintError, GrammarError, SchemaError
from agent.constraint.json_schema import OPTIONS, prepare_schema
from agent.constraint.languages.ebnf import parse_ebnf
from agent.constraint.languages.gbnf import parse_gbnf
from agent.constraint.languages.regex import parse_regex
from agent.constraint.lark.writing import RegularTree, to_lark_and_tree
from agent.constraint.matcher import ConstraintVocabulary
from agent.constraint.optional_runs import refuse_long_optional_runs
from agent.constraint.rule_options.splitting import split
from agent.constraint.structural_tag.parsing import parse_structural_tag
from agent.constraint.tree import NO_OPTIONS, EmbeddedSchema, Grammar, RuleOptions
from shared.messages_to_agent import ConstraintText

DEFAULT_ROOT = "root"
JSON_SCHEMA = "json_schema"
STRUCTURAL_TAG = "structural_tag"
MOST_LARK_CHARACTERS = 600_000
"""A literal of a million characters takes 230 MB, half of it while its terminal is read."""
KINDS = ("gbnf", "ebnf", "regex", JSON_SCHEMA, STRUCTURAL_TAG)


@dataclass(frozen=True, slots=True)
class LibraryGrammar:
    """What `LLMatcher` takes. Of a rule with options, and of the root of a grammar that has some: `entries` are by the
    token that stands for a rule the number of that rule's grammar."""

    text: str
    options: RuleOptions = NO_OPTIONS
    entries: Mapping[int, int] = field(default_factory=dict)
    tree: RegularTree | None = None  # where it is all of it


def to_library_grammars(
    constraint: ConstraintText, vocabulary: ConstraintVocabulary, most_bytes: int
) -> tuple[LibraryGrammar, ...]:
    """One, and one more for each rule with options. Raises ConstraintError with a sentence for the client."""
    _check_text(constraint.text, most_bytes)
    if constraint.kind == JSON_SCHEMA:
        return (LibraryGrammar(prepared_grammar(prepare_schema(constraint.text))),)
    parsed = resolve_tokens(_parse(constraint, vocabulary), vocabulary)
    refuse_long_optional_runs(parsed.rules)
    if not parsed.options:
        text, tree = _written(parsed)
        return (LibraryGrammar(text, tree=tree),)
    parts = split(parsed, vocabulary.spare_tokens)
    return tuple(LibraryGrammar(_written(part.grammar)[0], part.options, part.entries) for part in parts)


def _written(grammar: Grammar) -> tuple[str, RegularTree | None]:
    lark, tree = to_lark_and_tree(grammar, OPTIONS)
    if len(lark) > MOST_LARK_CHARACTERS:
        raise GrammarError("too large when written out; use fewer and shorter literals, or a JSON schema with an enum")
    return str(LLMatcher.grammar_from_lark(lark)), tree


def schemas_inside(constraint: ConstraintText, vocabulary: ConstraintVocabulary) -> tuple[EmbeddedSchema, ...]:
    """The JSON schemas in a structural tag, which was translated before; other kinds hold none."""
    return _parse(constraint, vocabulary).schemas if constraint.kind == STRUCTURAL_TAG else ()


def prepared_grammar(schema: dict[str, Any]) -> str:
    """Of a schema that was prepared. Raises SchemaError."""
    try:
        grammar: str = LLMatcher.grammar_from_json_schema(json.dumps(schema, allow_nan=False), overrides=OPTIONS)
    except ValueError:
        raise SchemaError("the schema holds a value that cannot be enforced; check its numbers and texts") from None
    return grammar


def _parse(constraint: ConstraintText, vocabulary: ConstraintVocabulary) -> Grammar:
    match constraint.kind:
        case "gbnf":
            return parse_gbnf(constraint.text, DEFAULT_ROOT if constraint.root is None else constraint.root)
        case "ebnf":
            return parse_ebnf(constraint.text)
        case "regex":
            return Grammar({DEFAULT_ROOT: parse_regex(constraint.text)}, DEFAULT_ROOT)
        case "structural_tag":
            return parse_structural_tag(constraint.text, vocabulary.form)
        case _:
            raise GrammarError(f"unknown type; use one of {', '.join(KINDS)}")


def _check_text(text: str, most_bytes: int) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        sentence = f"character {error.start + 1} is half of a surrogate pair; write whole characters"
        raise ConstraintError(sentence) from None
    if size > most_bytes:
        raise ConstraintError(f"{size} bytes long; at most {most_bytes} are read, so make it shorter")
