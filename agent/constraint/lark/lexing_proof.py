"""Proves that the lexer's greed does no harm, and opens terminals until that is so.

llguidance's lexer takes the longest match among the terminals that the parser expects. A rule-for-rule translation
therefore loses strings: in `("a" | .)*` then `"END"` the free text swallows the END. The lexer does no harm when this
holds for all terminals T and U that may be expected together (T = U included): after a text that T matches, U cannot go
on with a character with which something may follow T. Then, wherever T might end, nothing keeps it from ending. The
lexer reads bytes, so two characters that begin with the same byte count as one here: after `[c-z]+` an "é" would be
taken for the beginning of an "ê" that the terminal does match.

The condition looks at pairs, so what was found out about a pair stays true however the rest of the grammar is cut.
A terminal of one character never goes on, so opening ends; in the worst case it ends at single characters.
"""

from collections.abc import Mapping

from agent.constraint.errors import GrammarError
from agent.constraint.lark.alphabet import Alphabet, bits
from agent.constraint.lark.automaton import TooManyStates
from agent.constraint.lark.confusions import Confusions
from agent.constraint.lark.expected import Neighbours, expected_together, neighbours
from agent.constraint.lark.json_starts import JsonStarts
from agent.constraint.lark.opening import Opener
from agent.constraint.lark.pieces import Pieces
from agent.constraint.lark.regular import RegularTrees
from agent.constraint.tree import CharacterClass, JsonDocument, TokenSet

MOST_SYMBOLS = 60_000
MOST_ROUNDS = 100
_TOO_AMBIGUOUS = "the grammar is too ambiguous and too large; make it smaller"
_JSON_AMBIGUOUS = (
    "a JSON document stands where other text can stand that begins like it or goes on like a number; "
    "put a character between them that is in no number, or begin the other text differently"
)
_TOKEN_AMBIGUOUS = "a set of excluded tokens stands where text can stand too; the two cannot be told apart"


class LexingProof:
    """One grammar's proof. `make_harmless` changes `pieces`."""

    def __init__(self, pieces: Pieces, trees: RegularTrees, alphabet: Alphabet) -> None:
        self._pieces = pieces
        self._alphabet = alphabet
        self._json = JsonStarts(alphabet)
        self._opener = Opener(pieces, trees, alphabet)
        self._confusions = Confusions(trees)
        self._add_opaque()
        self.rounds = 0

    def make_harmless(self) -> None:
        """Opens terminals until the condition holds. Raises GrammarError when that cannot be."""
        while self.rounds < MOST_ROUNDS:
            self.rounds += 1
            try:
                self._confusions.learn(self._pieces.terminals)
            except TooManyStates:
                break
            conflicts = self._conflicts(neighbours(self._pieces))
            if not conflicts:
                return
            self._open(conflicts)
        self._open_everything()

    def _open_everything(self) -> None:
        """Single characters are harmless without any proof, and slow."""
        while harmful := {
            int(name): self._alphabet.every_character
            for name, node in self._pieces.terminals.items()
            if not isinstance(node, CharacterClass)
        }:
            self._open(harmful)
        self._confusions.take_as_alike(self._pieces.terminals)
        found = neighbours(self._pieces)
        self._check_opaque(found, expected_together(found, self._confusions.alike))

    def _open(self, terminals: Mapping[int, int]) -> None:
        for leaf, harmful in terminals.items():
            self._opener.open(str(leaf), harmful)
            if len(self._pieces.terminals) + len(self._pieces.rules) > MOST_SYMBOLS:
                raise GrammarError(_TOO_AMBIGUOUS)

    # What stands beside text

    def _add_opaque(self) -> None:
        documents: dict[int, bool] = {}
        for name, opaque in self._pieces.opaque.items():
            if isinstance(opaque, JsonDocument):
                documents[int(name)] = self._json.may_be_number(opaque)
                self._confusions.add_opaque(int(name), self._json.first(opaque))
            else:
                anything = isinstance(opaque, TokenSet) and opaque.negated
                text = self._alphabet.every_character if anything else 0
                self._confusions.add_opaque(int(name), self._alphabet.token | text)
        for leaf, is_number in documents.items():
            for other, other_is_number in documents.items():
                harm = self._json.number_characters if is_number and other_is_number else 0
                self._confusions.add_pair(leaf, other, harm)

    def _check_opaque(self, found: Neighbours, together: dict[int, int]) -> None:
        """What the lexer reads inside a JSON document we cannot take apart, so no text beside one may begin like it.
        A set of "any other token" holds tokens of text: beside text nobody knows which was meant."""
        firsts = self._confusions.firsts
        texts = [leaf for leaf in found.after if str(leaf) in self._pieces.terminals]
        for name, opaque in self._pieces.opaque.items():
            beside = [leaf for leaf in texts if together[int(name)] >> leaf & 1]
            if isinstance(opaque, JsonDocument) and any(firsts[leaf] & firsts[int(name)] for leaf in beside):
                raise GrammarError(_JSON_AMBIGUOUS, opaque.position)
            if isinstance(opaque, TokenSet) and opaque.negated and beside:
                raise GrammarError(_TOKEN_AMBIGUOUS, opaque.position)

    # Conflicts

    def _conflicts(self, found: Neighbours) -> dict[int, int]:
        """The terminals to open, each with the characters on which it does harm."""
        confusions = self._confusions
        together = expected_together(found, confusions.alike)
        self._check_opaque(found, together)
        conflicts: dict[int, int] = {}
        for only_itself in (True, False):
            for leaf, following in found.after.items():
                # One that is opened anyway does its harm in other shape afterwards.
                if leaf in conflicts or not following:
                    continue
                own = 1 << leaf
                rivals = together[leaf] & confusions.rivals[leaf] & (own if only_itself else ~own)
                follows = self._first_of(following) if rivals else 0
                for rival in bits(rivals):
                    harmful = confusions.harm(leaf, rival) & follows
                    if harmful and leaf not in conflicts:
                        self._refuse_opaque(rival)
                        conflicts[rival] = conflicts.get(rival, 0) | harmful
        return conflicts

    def _first_of(self, leaves: int) -> int:
        """The characters with which one of the leaves may be taken to begin."""
        mask = 0
        for leaf in bits(leaves):
            mask |= self._confusions.firsts[leaf]
        return self._alphabet.with_same_first_byte(mask)

    def _refuse_opaque(self, leaf: int) -> None:
        opaque = self._pieces.opaque.get(str(leaf))
        if opaque is not None:
            raise GrammarError(_JSON_AMBIGUOUS, opaque.position)
