"""Cuts a grammar at its rules with options, into parts that are compiled each for itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from agent.constraint.errors import GrammarError
from agent.constraint.lark.checks import MAX_NODES, checked
from agent.constraint.lark.normal_form import choice, size
from agent.constraint.lark.token_sets import token_sets_in
from agent.constraint.tree import (
    EMPTY,
    NO_OPTIONS,
    Choice,
    Grammar,
    Node,
    Reference,
    Repeat,
    RuleOptions,
    Shortest,
    TokenSet,
    nullable,
)
from agent.constraint.tree import Sequence as InOrder


@dataclass(frozen=True, slots=True)
class RulePart:
    """The grammar of one rule. `entries`: by the token that stands for a rule with options, the number of its part."""

    grammar: Grammar
    options: RuleOptions
    entries: Mapping[int, int]


def split(grammar: Grammar, tokens: Sequence[int]) -> tuple[RulePart, ...]:
    """The parts of a grammar with options, that of its root first. `tokens`: ids that no vocabulary has.

    A rule that may be empty may be left out where it stands, so its part is entered for at least one token. Raises
    GrammarError: what `checked` refuses, more rules with options than `tokens`, and rules with options that begin with
    each other without end. One that begins with itself (`list ::= list "," item | item`) does so inside its part: the
    inner occurrence begins with the outer one and is shorter, and the options are the same.
    """
    rules = checked(grammar).rules
    names = [grammar.root, *(name for name in rules if name in grammar.options and name != grammar.root)]
    if len(names) > len(tokens):
        sentence = f"{len(names) - 1} rules have max_tokens or temperature; at most {len(tokens) - 1} are possible"
        raise GrammarError(sentence)
    places = {name: token for name, token in zip(names, tokens, strict=False) if name in grammar.options}
    cutting = _Cutting(rules, places)
    grammars = {name: checked(Grammar(cutting.rules_of(name), _beginning(name))) for name in names}
    if (nodes := sum(size(body) for one in grammars.values() for body in one.rules.values())) > MAX_NODES:
        raise GrammarError(
            f"cut at its rules with max_tokens or temperature the grammar has {nodes} parts; "
            f"at most {MAX_NODES} are possible"
        )
    first = {name: _first_tokens(one, cutting.nullable_rules) for name, one in grammars.items()}
    _refuse_circles({name: [other for other, token in places.items() if token in first[name]] for name in names})
    return tuple(
        RulePart(
            one,
            grammar.options.get(name, NO_OPTIONS),
            {token: names.index(other) for other, token in places.items() if token in _named_tokens(one)},
        )
        for name, one in grammars.items()
    )


def _beginning(name: str) -> str:
    return f"beginning {name}"


class _Cutting:
    """Puts tokens in the place of rules with options."""

    def __init__(self, rules: Mapping[str, Node], places: Mapping[str, int]) -> None:
        self._rules = rules
        self._places = places
        self._may_be_empty = _nullable_rules(rules)
        self._plain = {name: self.cut(body) for name, body in rules.items() if name not in places}

    @property
    def nullable_rules(self) -> frozenset[str]:
        """Those of all parts."""
        return self._may_be_empty | frozenset(map(_beginning, self._may_be_empty))

    def rules_of(self, root: str) -> dict[str, Node]:
        """The rules of the part of `root`. Where it begins with itself, directly or through rules without options, it
        stays a rule: these rules are there once more, under names that no client can spell."""
        beginnings: dict[str, Node] = {}
        pending = [root]
        while pending:
            name = pending.pop()
            own, named = self._cut_own(root, self._rules[name])
            beginnings[name] = own
            pending.extend(other for other in named if other not in beginnings)
        return {**self._plain, **{_beginning(name): body for name, body in beginnings.items()}}

    def _cut_own(self, root: str, node: Node) -> tuple[Node, list[str]]:
        """The node at the beginning of the part of `root`, and the rules that it begins with."""
        match node:
            case Reference(name) if name == root or name not in self._places:
                return Reference(_beginning(name)), [name]
            case InOrder((first, *rest)):
                own, named = self._cut_own(root, first)
                return replace(node, parts=(own, *map(self.cut, rest))), named
            case Choice(options):
                pairs = [self._cut_own(root, option) for option in options]
                names = [name for _, named in pairs for name in named]
                return replace(node, options=tuple(own for own, _ in pairs)), names
            case Repeat(body, 0, 1):
                own, named = self._cut_own(root, body)
                return replace(node, body=own), named
            case _:
                return self.cut(node), []

    def cut(self, node: Node) -> Node:
        """With tokens in the place of rules with options."""
        match node:
            case Reference(name) if name in self._places:
                entry = TokenSet(frozenset((self._places[name],)))
                return choice((entry, EMPTY)) if name in self._may_be_empty else entry
            case InOrder(parts):
                return replace(node, parts=tuple(map(self.cut, parts)))
            case Choice(options):
                return replace(node, options=tuple(map(self.cut, options)))
            case Repeat(body) | Shortest(body):
                return replace(node, body=self.cut(body))
            case TokenSet(ids, True):
                return replace(node, ids=ids | frozenset(self._places.values()))
            case _:
                return node


def _nullable_rules(rules: Mapping[str, Node]) -> frozenset[str]:
    found: set[str] = set()
    while news := {name for name, body in rules.items() if name not in found and nullable(body, found)}:
        found |= news
    return frozenset(found)


def _first_tokens(grammar: Grammar, may_be_empty: frozenset[str]) -> frozenset[int]:
    """The tokens that may come first: those that stand for rules, among others."""
    found: set[int] = set()
    seen = {grammar.root}
    pending = [grammar.rules[grammar.root]]
    while pending:
        match pending.pop():
            case Reference(name) if name not in seen:
                seen.add(name)
                pending.append(grammar.rules[name])
            case InOrder(parts):
                pending.extend(_up_to_the_first_that_must_be(parts, may_be_empty))
            case Choice(options):
                pending.extend(options)
            case Repeat(body) | Shortest(body):
                pending.append(body)
            case TokenSet(ids, False):
                found |= ids
            case _:
                pass
    return frozenset(found)


def _up_to_the_first_that_must_be(parts: Iterable[Node], may_be_empty: frozenset[str]) -> Iterable[Node]:
    for part in parts:
        yield part
        if not nullable(part, may_be_empty):
            return


def _refuse_circles(begins_with: Mapping[str, Iterable[str]]) -> None:
    try:
        TopologicalSorter(begins_with).prepare()
    except CycleError as error:
        names = " and ".join(dict.fromkeys(error.args[1]))
        sentence = f"with max_tokens or temperature these rules cannot begin with each other: {names}; "
        raise GrammarError(f'{sentence}write repetitions as in item ("," item)*') from None


def _named_tokens(grammar: Grammar) -> set[int]:
    named = (one for one in token_sets_in(grammar.rules.values()) if not one.negated)
    return set().union(*(one.ids for one in named))
