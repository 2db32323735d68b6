"""Opens a terminal that does harm: from one piece for the lexer to several, joined by the parser.

As little as possible is taken apart: the last element of a sequence comes off, so that what is before it stays long.
Taking whole sequences apart makes masks a thousand times slower.
"""

from agent.constraint.errors import GrammarError
from agent.constraint.languages.code_points import without
from agent.constraint.lark.alphabet import Alphabet
from agent.constraint.lark.automaton import Automaton, TooManyStates, useful_states
from agent.constraint.lark.normal_form import choice, one_character, repeat, sequence
from agent.constraint.lark.pieces import Pieces
from agent.constraint.lark.regular import RegularTrees
from agent.constraint.tree import (
    EMPTY,
    CharacterClass,
    Choice,
    CodePointRanges,
    FreeText,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    SubstringOf,
    Text,
)

MOST_PEELED = 16
"""A sequence or text of more elements is halved: peeling one by one would take too many rounds."""
MOST_STATE_RULES = 500
_TOO_LARGE = "text that is searched for stands where other text can stand, and is too long to be told apart from it"


class Opener:
    """Takes terminals of `pieces` apart; new terminals and rules are added there."""

    def __init__(self, pieces: Pieces, trees: RegularTrees, alphabet: Alphabet) -> None:
        self._pieces = pieces
        self._trees = trees
        self._alphabet = alphabet

    def open(self, name: str, harmful: int) -> None:
        """`harmful` are the characters on which the terminal went on where another one had to end.

        Raises GrammarError when it cannot be taken apart in reasonable size.
        """
        self._pieces.open(name, self._expression(self._pieces.terminals[name], harmful))

    def _expression(self, node: Node, harmful: int) -> Node:
        piece = self._pieces.terminal
        match node:
            case Text(text):
                cut = len(text) - 1 if len(text) <= MOST_PEELED else len(text) // 2
                return Sequence((piece(_text(text[:cut])), piece(_text(text[cut:]))))
            case Sequence(parts):
                cut = len(parts) - 1 if len(parts) <= MOST_PEELED else len(parts) // 2
                return Sequence((piece(sequence(parts[:cut])), piece(sequence(parts[cut:]))))
            case Choice(options):
                return Choice(tuple(map(piece, options)))
            case Repeat():
                return self._repeat(node, harmful)
            case FreeText() | Shortest() | SubstringOf():
                return self._automaton(node)
            case _:
                raise AssertionError(f"{type(node).__name__} cannot do harm")

    # Repetitions

    def _repeat(self, node: Repeat, harmful: int) -> Node:
        """x{2,} is x x x*. Where the body has characters that do no harm, they stay together: (a|b)* is a* (b a*)*."""
        body, least, most = node.body, node.least, node.most
        if most is None and least > 1:
            return Sequence(
                (Repeat(self._pieces.terminal(body), least, least), self._repeat(Repeat(body, 0, None), harmful))
            )
        run, others = self._harmless_run(body, harmful) if most is None else (None, body)
        if run is None:
            return Repeat(self._pieces.terminal(body), least, most)
        stretch = self._pieces.terminal(repeat(run, 0, None))
        again = Sequence((self._pieces.terminal(others), stretch))
        if least == 0:
            return Sequence((stretch, Repeat(again, 0, None)))
        begun = Sequence((self._pieces.terminal(repeat(run, 1, None)), Repeat(again, 0, None)))
        return Choice((begun, Repeat(again, 1, None)))

    def _harmless_run(self, body: Node, harmful: int) -> tuple[Node | None, Node]:
        """The class of single characters that may stay together (None: none), and the rest of the body."""
        while isinstance(body, Reference):
            body = self._pieces.regular[body.name]
        options = body.options if isinstance(body, Choice) else (body,)
        classes = [option for option in options if isinstance(option, CharacterClass)]
        others = [option for option in options if not isinstance(option, CharacterClass)]
        if len(classes) != 1:
            return None, body
        mask = self._alphabet.mask(classes[0].ranges)
        if not mask & harmful or mask & harmful == mask:
            return None, body
        harmed: CodePointRanges = self._alphabet.ranges(mask & harmful)
        kept = CharacterClass(without(classes[0].ranges, harmed))
        self._alphabet.add_union(kept.ranges, mask & ~harmful)
        self._alphabet.add_union(harmed, mask & harmful)
        return kept, choice([CharacterClass(harmed), *others])

    # Automata

    def _automaton(self, node: FreeText | Shortest | SubstringOf) -> Node:
        """A rule for each state that says what leads to it: left recursion costs the parser nothing."""
        automaton = self._table(node)
        names = {state: self._pieces.new_rule() for state in useful_states(automaton)}
        leading: dict[int, list[Node]] = {state: [] for state in names}
        leading[0].append(EMPTY)
        for state, name in names.items():
            for mask, target in automaton.transitions(state):
                if target in names:
                    ranges = self._alphabet.ranges(mask)
                    self._alphabet.add_union(ranges, mask)
                    step = self._pieces.terminal(CharacterClass(ranges))
                    leading[target].append(Sequence((Reference(name), step)))
        for state, name in names.items():
            self._pieces.rules[name] = Choice(tuple(leading[state]))
        return Choice(tuple(Reference(name) for state, name in names.items() if automaton.accepting[state]))

    def _table(self, node: FreeText | Shortest | SubstringOf) -> Automaton:
        try:
            match node:
                case FreeText():
                    automaton = self._trees.free_text(node)
                case Shortest():
                    automaton = self._trees.shortest(node)
                case SubstringOf():
                    automaton = self._trees.exact(node)
            automaton.expand()
        except TooManyStates:
            raise GrammarError(_TOO_LARGE) from None
        if len(automaton.accepting) > MOST_STATE_RULES:
            raise GrammarError(_TOO_LARGE)
        return automaton


def _text(text: str) -> Node:
    return one_character(ord(text)) if len(text) == 1 else Text(text)
