"""Our own judge of languages: does a grammar contain a string? Slow, plain, and independent of how we compile.

An Earley parser over networks of states, one network for each rule, so that left recursion, hidden left recursion,
nullable loops and ambiguity need no special care. It knows the nodes that speak of characters; TokenSet, TokenNamed and
JsonDocument raise ValueError. Strings to try are made by tests/support/constraint_strings.py.

    judge = Recogniser(grammar)
    assert judge.accepts("a text")
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.constraint.tree import (
    LAST_CODE_POINT,
    CharacterClass,
    Choice,
    CodePointRanges,
    FreeText,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    SubstringOf,
    Text,
)

_EMPTY = None


@dataclass(slots=True)
class _Network:
    """States are numbers. An edge goes on a class of characters, on a rule (its number), or on nothing (None)."""

    edges: list[list[tuple[CodePointRanges | int | None, int]]] = field(default_factory=list)
    ends_rule: dict[int, int] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    shortest: set[int] = field(default_factory=set)

    def new_state(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def new_rule(self) -> tuple[int, int, int]:
        """The rule's number, its first and its last state."""
        first, last = self.new_state(), self.new_state()
        self.starts.append(first)
        self.ends_rule[last] = len(self.starts) - 1
        return len(self.starts) - 1, first, last

    def join(self, first: int, label: CodePointRanges | int | None, last: int) -> None:
        self.edges[first].append((label, last))


class Recogniser:
    """Asked as often as one likes; what it builds is kept."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._networks: dict[int, tuple[_Network, int]] = {}

    def accepts(self, text: str) -> bool:
        """Whether the whole text is in the language of the root rule. Raises ValueError on nodes about tokens."""
        cap = 1 << len(text).bit_length()
        if cap not in self._networks:
            self._networks[cap] = _Builder(self._grammar, cap).build()
        network, root = self._networks[cap]
        return _run(network, root, text)


def language_contains(grammar: Grammar, text: str) -> bool:
    """Recogniser(grammar).accepts(text), for a single question."""
    return Recogniser(grammar).accepts(text)


def node_contains(node: Node, text: str) -> bool:
    """The same for a tree that is not part of a grammar and has no references."""
    return language_contains(Grammar({"root": node}, "root"), text)


def is_in(character: str, ranges: CodePointRanges) -> bool:
    code = ord(character)
    return any(low <= code <= high for low, high in ranges)


class _Builder:
    """`cap`: more than the length of any text that will be asked about, so that greater counts can be cut to it.

    That is exact: of the repetitions that match such a text fewer than `cap` are not empty.
    """

    def __init__(self, grammar: Grammar, cap: int) -> None:
        self._grammar = grammar
        self._cap = cap
        self._network = _Network()
        self._numbers: dict[str, int] = {}

    def build(self) -> tuple[_Network, int]:
        ends = {}
        for name in self._grammar.rules:
            number, first, last = self._network.new_rule()
            self._numbers[name] = number
            ends[name] = (first, last)
        for name, body in self._grammar.rules.items():
            self._add(body, *ends[name])
        return self._network, self._numbers[self._grammar.root]

    def _add(self, node: Node, first: int, last: int) -> None:
        """Paths from `first` to `last` that spell the node."""
        match node:
            case Text(text):
                self._chain([((ord(c), ord(c)),) for c in text], first, last)
            case CharacterClass(ranges):
                self._network.join(first, ranges, last)
            case Sequence(parts):
                for part in parts:
                    between = self._network.new_state()
                    self._add(part, first, between)
                    first = between
                self._network.join(first, _EMPTY, last)
            case Choice(options):
                for option in options:
                    self._add(option, first, last)
            case Repeat():
                self._add_repeat(node, first, last)
            case Reference(name):
                self._network.join(first, self._numbers[name], last)
            case FreeText(avoid, until):
                self._add_free_text(avoid, until, first, last)
            case Shortest(body):
                number = self._sub_rule(body)
                self._network.shortest.add(number)
                self._network.join(first, number, last)
            case SubstringOf(chunks):
                self._add_substring(chunks, first, last)
            case _:
                raise ValueError(f"the recogniser does not know {type(node).__name__}")

    def _sub_rule(self, body: Node) -> int:
        number, first, last = self._network.new_rule()
        self._add(body, first, last)
        return number

    def _chain(self, labels: Iterable[CodePointRanges | int], first: int, last: int) -> None:
        for label in labels:
            between = self._network.new_state()
            self._network.join(first, label, between)
            first = between
        self._network.join(first, _EMPTY, last)

    def _add_repeat(self, node: Repeat, first: int, last: int) -> None:
        if node.most is not None and node.most < node.least:
            return
        body = self._sub_rule(node.body)
        least = min(node.least, self._cap)
        between = self._network.new_state()
        self._chain([body] * least, first, between)
        if node.most is None:
            self._network.join(between, body, between)
        else:
            for _ in range(min(node.most, self._cap) - least):
                self._network.join(between, _EMPTY, last)
                following = self._network.new_state()
                self._network.join(between, body, following)
                between = following
        self._network.join(between, _EMPTY, last)

    def _add_free_text(self, avoid: tuple[str, ...], until: str | None, first: int, last: int) -> None:
        """A state for each prefix of the strings looked for: the longest one that the text so far ends in."""
        wanted = [*avoid, *([] if until is None else [until])]
        prefixes = {"": self._network.new_state()}
        if "" in avoid:
            return
        for string in wanted:
            for length in range(1, len(string) + 1):
                prefixes.setdefault(string[:length], self._network.new_state())
        self._network.join(first, _EMPTY, prefixes[""])
        letters = sorted({c for string in wanted for c in string})
        others = _complement([ord(c) for c in letters])
        for prefix, state in prefixes.items():
            if any(prefix.endswith(string) for string in avoid):
                continue
            if until is None or prefix.endswith(until):
                self._network.join(state, _EMPTY, last)
            if until is not None and prefix.endswith(until):
                continue
            self._network.join(state, others, prefixes[""])
            for letter in letters:
                grown = prefix + letter
                while grown not in prefixes:
                    grown = grown[1:]
                self._network.join(state, ((ord(letter), ord(letter)),), prefixes[grown])

    def _add_substring(self, chunks: tuple[str, ...], first: int, last: int) -> None:
        place = self._network.new_state()
        self._network.join(first, _EMPTY, place)
        for chunk in chunks:
            following = self._network.new_state()
            self._chain([((ord(c), ord(c)),) for c in chunk], place, following)
            self._network.join(place, _EMPTY, last)
            self._network.join(first, _EMPTY, following)
            place = following
        self._network.join(place, _EMPTY, last)


def _complement(codes: list[int]) -> CodePointRanges:
    """`codes` is sorted. Surrogates do not matter here: no text that is asked about holds one."""
    ranges, low = [], 0
    for code in codes:
        if low < code:
            ranges.append((low, code - 1))
        low = code + 1
    if low <= LAST_CODE_POINT:
        ranges.append((low, LAST_CODE_POINT))
    return tuple(ranges)


def _run(network: _Network, root: int, text: str) -> bool:
    """An item is (state, where its rule began); `waiting[i][rule]` are the items that go on when the rule ends."""
    items: list[set[tuple[int, int]]] = [set() for _ in range(len(text) + 1)]
    waiting: list[dict[int, set[tuple[int, int]]]] = [{} for _ in range(len(text) + 1)]
    first_end: dict[tuple[int, int], int] = {}
    items[0].add((network.starts[root], 0))
    done: set[tuple[int, int]] = set()
    for here in range(len(text) + 1):
        done = set()
        todo = deque(items[here])

        def add(item: tuple[int, int], here: int = here, todo: deque[tuple[int, int]] = todo) -> None:
            if item not in items[here]:
                items[here].add(item)
                todo.append(item)

        while todo:
            state, origin = todo.popleft()
            rule = network.ends_rule.get(state)
            if rule is not None and (rule, origin) not in done:
                earliest = first_end.setdefault((rule, origin), here)
                if rule not in network.shortest or earliest == here:
                    done.add((rule, origin))
                    for item in tuple(waiting[origin].get(rule, ())):
                        add(item)
            for label, target in network.edges[state]:
                if label is None:
                    add((target, origin))
                elif isinstance(label, int):
                    waiting[here].setdefault(label, set()).add((target, origin))
                    add((network.starts[label], here))
                    if (label, here) in done:
                        add((target, origin))
                elif here < len(text) and is_in(text[here], label):
                    items[here + 1].add((target, origin))
    return (root, 0) in done
