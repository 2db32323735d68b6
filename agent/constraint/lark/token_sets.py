"""Makes the sets of tokens in a grammar disjoint: of two sets that overlap llguidance forgets one.

The ids were checked already (see control_tokens): a set that is not negated holds control tokens only.
"""

from collections.abc import Iterable

from agent.constraint.tree import (
    Choice,
    Node,
    TokenSet,
    children,
)


def token_sets_in(nodes: Iterable[Node]) -> set[TokenSet]:
    """All of them."""
    found: set[TokenSet] = set()
    stack = list(nodes)
    while stack:
        current = stack.pop()
        if isinstance(current, TokenSet):
            found.add(current)
        stack.extend(children(current))
    return found


def disjoint_token_sets(found: set[TokenSet]) -> dict[TokenSet, Node]:
    """Each set as a choice of sets that are pairwise equal or disjoint."""
    ordered = sorted(found, key=lambda tokens: (tokens.negated, sorted(tokens.ids)))
    named = sorted(set().union(*(tokens.ids for tokens in ordered)))
    alike: dict[tuple[bool, ...], set[int]] = {}
    for token in named:
        holders = tuple((token in tokens.ids) != tokens.negated for tokens in ordered)
        alike.setdefault(holders, set()).add(token)
    rest = TokenSet(frozenset(named), negated=True)
    pieces: dict[TokenSet, Node] = {}
    for place, tokens in enumerate(ordered):
        options: list[Node] = [TokenSet(frozenset(ids)) for holders, ids in alike.items() if holders[place]]
        if tokens.negated:
            options.append(rest)
        pieces[tokens] = options[0] if len(options) == 1 else Choice(tuple(options))
    return pieces
