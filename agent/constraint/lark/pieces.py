"""Cuts a grammar into terminals (regular, matched by the lexer) and rules over them (matched by the parser).

Every maximal regular piece becomes a terminal: long terminals are what makes masks fast. Whether that is harmless is
proved elsewhere (lexing_proof), which opens terminals that do harm (see `Pieces.open`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent.constraint.errors import GrammarError
from agent.constraint.lark.rule_order import without_simple_recursion
from agent.constraint.lark.token_sets import disjoint_token_sets, token_sets_in
from agent.constraint.tree import (
    EMPTY,
    Choice,
    Grammar,
    JsonDocument,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    TokenNamed,
    TokenSet,
    nullable,
    references,
)

Opaque = TokenSet | TokenNamed | JsonDocument


@dataclass(slots=True)
class Pieces:
    """Symbols by generated name. Expressions: sequences, choices and repetitions over references to symbols."""

    root: str = ""
    terminals: dict[str, Node] = field(default_factory=dict)
    """Regular nodes. A terminal stands for their non-empty strings."""
    rules: dict[str, Node] = field(default_factory=dict)
    """Expressions over symbols."""
    opaque: dict[str, Opaque] = field(default_factory=dict)
    """What llguidance knows and we do not: JSON documents and tokens."""
    regular: dict[str, Node] = field(default_factory=dict)
    """The grammar's own regular rules by the grammar's own names, leaves first: what terminals refer to."""
    nullable_rules: frozenset[str] = frozenset()
    """Those of `regular` that match the empty string."""
    _known: dict[Node, str] = field(default_factory=dict)

    def new_name(self) -> str:
        """A name that no symbol has."""
        return str(len(self.terminals) + len(self.rules) + len(self.opaque))

    def new_rule(self) -> str:
        """The name of a rule whose expression is still to come."""
        name = self.new_name()
        self.rules[name] = EMPTY
        return name

    def terminal(self, node: Node) -> Node:
        """The expression for a regular node: its terminal, or nothing, or either."""
        while isinstance(node, Reference):
            node = self.regular[node.name]
        if node == EMPTY:
            return EMPTY
        if node not in self._known:
            name = self.new_name()
            self._known[node] = name
            self.terminals[name] = node
        reference = Reference(self._known[node])
        return Repeat(reference, 0, 1) if self.is_nullable(node) else reference

    def opaque_symbol(self, node: Opaque) -> Node:
        """The expression for something that is not text of ours."""
        for name, known in self.opaque.items():
            if known == node:
                return Reference(name)
        name = self.new_name()
        self.opaque[name] = node
        return Reference(name)

    def open(self, name: str, expression: Node) -> None:
        """The terminal becomes a rule with this expression, wherever it is used."""
        del self.terminals[name]
        self.rules[name] = expression

    def is_nullable(self, node: Node) -> bool:
        """Whether a regular node matches the empty string."""
        return nullable(node, self.nullable_rules)


def cut(grammar: Grammar) -> Pieces:
    """The pieces of a checked grammar. Raises GrammarError where something must be regular and is not."""
    rules, circular = without_simple_recursion(grammar.rules)
    return _Cutting(rules, circular).pieces(grammar.root)


class _Cutting:
    def __init__(self, rules: Mapping[str, Node], circular: frozenset[str]) -> None:
        self._rules = rules
        self._pieces = Pieces()
        self._answers: dict[int, tuple[Node, bool]] = {}
        nullable_rules: set[str] = set()
        for name, body in rules.items():
            if name not in circular and self.is_regular(body):
                self._pieces.regular[name] = body
                if nullable(body, nullable_rules):
                    nullable_rules.add(name)
        self._pieces.nullable_rules = frozenset(nullable_rules)
        self._tokens = disjoint_token_sets(token_sets_in(rules.values()))
        self._names: dict[str, str] = {}

    def pieces(self, root: str) -> Pieces:
        reached = {root: None}
        pending = [root]
        while pending:
            for used in references(self._rules[pending.pop()]):
                if used not in reached and used not in self._pieces.regular:
                    reached[used] = None
                    pending.append(used)
        for name in reached:
            # The place is taken before the body is known: rules refer to each other.
            self._names[name] = self._pieces.new_rule()
        for name in reached:
            self._pieces.rules[self._names[name]] = self._lowered(self._rules[name])
        self._pieces.root = self._names[root]
        return self._pieces

    def is_regular(self, node: Node) -> bool:
        """Whether it speaks of text only, and of rules that are known to be regular only."""
        known = self._answers.get(id(node))
        if known is None:
            # The node is kept so that no other can get its id.
            known = self._answers[id(node)] = node, self._find_whether_regular(node)
        return known[1]

    def _find_whether_regular(self, node: Node) -> bool:
        match node:
            case TokenSet() | TokenNamed() | JsonDocument():
                return False
            case Reference(name):
                return name in self._pieces.regular
            case Sequence(parts):
                return all(map(self.is_regular, parts))
            case Choice(options):
                return all(map(self.is_regular, options))
            case Repeat(body):
                return self.is_regular(body)
            case Shortest(body):
                if not self.is_regular(body):
                    raise GrammarError(
                        "the shortest match can be asked of text without recursion, tokens and JSON only"
                    )
                return True
            case _:
                return True

    def _lowered(self, node: Node) -> Node:
        if self.is_regular(node):
            return self._pieces.terminal(node)
        match node:
            case Sequence(parts):
                return Sequence(tuple(self._lowered(part) for part in self._joined(parts)))
            case Choice(options):
                regular = [option for option in options if self.is_regular(option)]
                others = [option for option in options if not self.is_regular(option)]
                kept = [*_one_choice(regular), *others]
                return Choice(tuple(map(self._lowered, kept)))
            case Repeat(body, least, most):
                return Repeat(self._lowered(body), least, most)
            case Reference(name):
                return Reference(self._names[name])
            case TokenSet():
                tokens = self._tokens[node]
                options = tokens.options if isinstance(tokens, Choice) else (tokens,)
                return Choice(tuple(self._pieces.opaque_symbol(o) for o in options if isinstance(o, TokenSet)))
            case TokenNamed() | JsonDocument():
                return self._pieces.opaque_symbol(node)
            case _:
                raise AssertionError(f"{type(node).__name__} is regular")

    def _joined(self, parts: Iterable[Node]) -> list[Node]:
        """Neighbours that are regular as one."""
        joined: list[Node] = []
        run: list[Node] = []
        for part in parts:
            if self.is_regular(part):
                run.append(part)
                continue
            joined.extend([*_one_sequence(run), part])
            run = []
        return [*joined, *_one_sequence(run)]


def _one_sequence(run: list[Node]) -> list[Node]:
    return run if len(run) < 2 else [Sequence(tuple(run))]


def _one_choice(options: list[Node]) -> list[Node]:
    return options if len(options) < 2 else [Choice(tuple(options))]
