"""Resolves the tokens that a grammar names (`<|im_end|>`, `<[4]>`) against the vocabulary of the model that serves.

Only control tokens can be named: of any other token text could say the same, and which of the two an answer then holds
nobody can tell. A token that ends the answer can only be excluded: the answer would end in the middle of its grammar.
"""

from dataclasses import replace

from agent.constraint.errors import GrammarError
from agent.constraint.matcher import ConstraintVocabulary
from agent.constraint.tree import (
    Choice,
    Grammar,
    Node,
    Repeat,
    Sequence,
    Shortest,
    TokenNamed,
    TokenSet,
    children,
)

_MOST_SHOWN = 60


def resolve_tokens(grammar: Grammar, vocabulary: ConstraintVocabulary) -> Grammar:
    """The same grammar without `TokenNamed`, its `TokenSet`s checked. Raises GrammarError with the token's place."""
    if not any(_names_tokens(node) for node in grammar.rules.values()):
        return grammar
    rules = {name: _resolved(node, vocabulary) for name, node in grammar.rules.items()}
    return replace(grammar, rules=rules)


def _names_tokens(node: Node) -> bool:
    pending = [node]
    while pending:
        found = pending.pop()
        if isinstance(found, TokenNamed | TokenSet):
            return True
        pending.extend(children(found))
    return False


def _resolved(node: Node, vocabulary: ConstraintVocabulary) -> Node:
    if isinstance(node, Sequence):
        return replace(node, parts=tuple(_resolved(part, vocabulary) for part in node.parts))
    if isinstance(node, Choice):
        return replace(node, options=tuple(_resolved(option, vocabulary) for option in node.options))
    if isinstance(node, Repeat | Shortest):
        return replace(node, body=_resolved(node.body, vocabulary))
    if isinstance(node, TokenNamed):
        return _checked(TokenSet(frozenset({_id_of(node, vocabulary)}), node.negated, node.position), vocabulary)
    return _checked(node, vocabulary) if isinstance(node, TokenSet) else node


def _id_of(node: TokenNamed, vocabulary: ConstraintVocabulary) -> int:
    try:
        tokens = vocabulary.form.tokenize_str(node.name, parse_special=True)
    except (ValueError, UnicodeError):
        tokens = []
    if len(tokens) != 1 or not vocabulary.form.is_special_token(tokens[0]):
        shown = node.name if len(node.name) <= _MOST_SHOWN else node.name[:_MOST_SHOWN] + "..."
        raise GrammarError(f"this model has no control token {shown}; write it as text, in quotes", node.position)
    return int(tokens[0])


def _checked(tokens: TokenSet, vocabulary: ConstraintVocabulary) -> TokenSet:
    for token in sorted(tokens.ids):
        if not 0 <= token < vocabulary.size:
            sentence = f"token {token} is not in the vocabulary; ids are 0 to {vocabulary.size - 1}"
            raise GrammarError(sentence, tokens.position)
        if tokens.negated:
            continue
        if not vocabulary.form.is_special_token(token):
            raise GrammarError(f"token {token} is no control token; write its text instead, in quotes", tokens.position)
        if token in vocabulary.end_tokens:
            sentence = f"token {token} ends the answer, so it cannot be part of it; leave it out"
            raise GrammarError(sentence, tokens.position)
    if not tokens.negated:
        return tokens
    return replace(tokens, ids=tokens.ids | frozenset(vocabulary.end_tokens))
