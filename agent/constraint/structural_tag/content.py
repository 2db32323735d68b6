"""What stands between the strings of a structural tag: JSON documents, regular expressions, grammars. Each is read by
the front end of its own language, and an error in it is told with the pointer of the format that holds it."""

from dataclasses import replace
from typing import Any

from agent.constraint.errors import GrammarError, SchemaError
from agent.constraint.json_schema import prepare_schema
from agent.constraint.languages.ebnf import parse_ebnf
from agent.constraint.languages.regex import parse_regex
from agent.constraint.structural_tag.fields import below, quoted, refusal
from agent.constraint.structural_tag.formats import EbnfText, RegexText, Schema
from agent.constraint.structural_tag.xml import parameters_of
from agent.constraint.tree import (
    Choice,
    EmbeddedSchema,
    JsonDocument,
    Node,
    Reference,
    Repeat,
    RuleOptions,
    Sequence,
    Shortest,
)


class Contents:
    """Turns contents into nodes and collects the rules that they need, under names that no grammar can spell."""

    def __init__(self) -> None:
        self.rules: dict[str, Node] = {}
        self.options: dict[str, RuleOptions] = {}
        self.schemas: list[EmbeddedSchema] = []

    def shared(self, node: Node, options: RuleOptions | None = None) -> Reference:
        """A rule of its own, for what is said in several places, and for what has options."""
        name = f"part {len(self.rules)}"
        self.rules[name] = node
        if options is not None:
            self.options[name] = options
        return Reference(name)

    def schema(self, found: Schema) -> Node:
        """A JSON document. Raises GrammarError."""
        if found.style == "json":
            return self._document(found.schema, found.path)
        return parameters_of(found.schema, found.path, found.style, self._document)

    def regex(self, found: RegexText) -> Node:
        """Raises GrammarError with the place in the pattern."""
        try:
            return parse_regex(found.pattern)
        except GrammarError as error:
            raise refusal(below(found.path, "pattern"), str(error)) from None

    def grammar(self, found: EbnfText) -> Node:
        """A reference to the grammar's root. Raises GrammarError with the place in its text."""
        try:
            grammar = parse_ebnf(found.grammar)
        except GrammarError as error:
            raise refusal(below(found.path, "grammar"), str(error)) from None
        names = {name: f"grammar {len(self.rules)} {name}" for name in grammar.rules}
        if grammar.root not in names:
            raise refusal(below(found.path, "grammar"), f"has no rule {quoted(grammar.root)}")
        self.options.update((names[name], options) for name, options in grammar.options.items())
        for name, body in grammar.rules.items():
            try:
                self.rules[names[name]] = renamed(body, names)
            except KeyError as error:
                sentence = f"the rule {quoted(name)} refers to {quoted(error.args[0])}, which is no rule"
                raise refusal(below(found.path, "grammar"), sentence) from None
        return Reference(names[grammar.root])

    def _document(self, schema: Any, path: str) -> Node:
        if schema is True:
            schema = {}
        if schema is False:
            raise refusal(path, "allows no document at all; use another schema")
        if not isinstance(schema, dict | str):
            raise refusal(path, "must be a JSON schema: an object or true")
        try:
            prepared = prepare_schema(schema)
        except SchemaError as error:
            sentence = str(error).removeprefix(f"{error.path}: ")
            raise refusal(path + error.path.removeprefix("#"), sentence) from None
        self.schemas.append(EmbeddedSchema(path, schema, prepared))
        return JsonDocument(prepared)


def renamed(node: Node, names: dict[str, str]) -> Node:
    """The same tree with other names in its references. Raises KeyError for a name that has none.

    As deep as the front end lets a tree be nested, which is bounded there.
    """
    match node:
        case Sequence(parts):
            return replace(node, parts=tuple(renamed(part, names) for part in parts))
        case Choice(options):
            return replace(node, options=tuple(renamed(option, names) for option in options))
        case Repeat(body) | Shortest(body):
            return replace(node, body=renamed(body, names))
        case Reference(name):
            return replace(node, name=names[name])
        case _:
            return node
