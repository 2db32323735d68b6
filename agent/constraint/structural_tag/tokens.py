"""Tokens in structural tags: only control tokens, since of any other token nobody can tell whether text wrote it."""

from collections.abc import Iterable
from typing import Protocol

from agent.constraint.structural_tag.fields import quoted, refusal
from agent.constraint.structural_tag.formats import TokenReference
from agent.constraint.tree import TokenSet


class TokenizerForm(Protocol):
    """What is asked of a vocabulary; llguidance's LLTokenizer has it."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens; ids are 0 to vocab_size - 1."""

    @property
    def eos_tokens(self) -> list[int]:
        """The tokens that end an answer."""

    def is_special_token(self, token: int) -> bool:
        """Whether it is a control token. Only for ids of the vocabulary."""

    def tokenize_str(self, text: str, *, parse_special: bool = False) -> list[int]:
        """Token ids of the text; with parse_special, spelled control tokens become those."""


class ControlTokens:
    """Answers which ids a tag speaks of. Raises GrammarError for what this model's vocabulary cannot do."""

    def __init__(self, form: TokenizerForm | None) -> None:
        """None: no vocabulary is at hand, and every token is refused."""
        self._form = form
        self._ends = frozenset(form.eos_tokens if form is not None else ())

    def one(self, token: TokenReference, path: str) -> int:
        """The id of a control token that does not end the answer."""
        found = self._id(token, path)
        if found is None or not self._vocabulary(path).is_special_token(found):
            raise refusal(
                path, f"{_shown(token)} is no control token of this model; write it as text instead, in a string"
            )
        if found in self._ends:
            raise refusal(
                path, f"{_shown(token)} ends the answer of this model, so nothing can follow it; leave it out"
            )
        return found

    def refuse_spelling(self, text: str, path: str) -> None:
        """Of a string that marks something: not when it spells a control token, since strings only mean text."""
        found = self._id(text, path) if text and self._form is not None else None
        if found is None:
            return
        remedy = "which ends the answer by itself; leave it out"
        if found not in self._ends:
            remedy = f'and a string means text; write {{"type": "token", "token": {quoted(text)}}}'
        raise refusal(path, f"{quoted(text)} is a control token of this model, {remedy}")

    def any_but(self, excluded: Iterable[int]) -> TokenSet:
        """One token, none of `excluded` and none that ends the answer."""
        return TokenSet(frozenset(excluded) | self._ends, negated=True)

    def several(self, tokens: Iterable[TokenReference], path: str) -> frozenset[int]:
        """The ids of tokens to exclude. Here any token may be named, also one that ends the answer."""
        found = set()
        for token in tokens:
            number = self._id(token, path)
            if number is None:
                raise refusal(path, f"{_shown(token)} is no control token of this model; name other tokens by number")
            found.add(number)
        return frozenset(found)

    def _vocabulary(self, path: str) -> TokenizerForm:
        if self._form is None:
            raise refusal(path, "needs a model with a vocabulary; use strings instead of tokens")
        return self._form

    def _id(self, token: TokenReference, path: str) -> int | None:
        form = self._vocabulary(path)
        if isinstance(token, int):
            if token >= form.vocab_size:
                raise refusal(path, f"{token} is not in this model's vocabulary of {form.vocab_size} tokens")
            return token
        ids = form.tokenize_str(token, parse_special=True)
        return ids[0] if len(ids) == 1 and form.is_special_token(ids[0]) else None


def _shown(token: TokenReference) -> str:
    return quoted(token) if isinstance(token, str) else str(token)
