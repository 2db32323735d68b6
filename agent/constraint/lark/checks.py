"""What a grammar must satisfy before anything is made of it: every name defined, some string possible, bounded in size.

llguidance compiles a rule that can never end without a word, and a chain of 4,000 rules ends the whole process, so both
are found here. Rules that the root does not reach, and options that match nothing, are left out on the way.
"""

from collections.abc import Callable, Iterable, Mapping

from agent.constraint.errors import GrammarError
from agent.constraint.lark.normal_form import MAX_COUNT, normalised, size
from agent.constraint.tree import (
    EMPTY,
    NOTHING,
    CharacterClass,
    Choice,
    FreeText,
    Grammar,
    Node,
    Position,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    SubstringOf,
    Text,
    TokenSet,
    children,
    references,
)

MAX_NODES = 100_000
MAX_DEPTH = 420
MAX_REFERENCE_DEPTH = 500
MAX_SUBSTRING_CHARACTERS = 20_000
_SHOWN_CHARACTERS = 60


def checked(grammar: Grammar) -> Grammar:
    """The rules that matter, in plain shape (see normal_form), each able to match something.

    Raises GrammarError: an undefined rule, a language without any string, or a size over the limits above.
    """
    for body in grammar.rules.values():
        _check_sizes(body)
    nodes = sum(size(body) for body in grammar.rules.values())
    if nodes > MAX_NODES:
        raise GrammarError(f"the grammar has {nodes} parts; at most {MAX_NODES} are possible")
    _check_names(grammar)
    rules = {name: normalised(grammar.rules[name]) for name in _reachable(grammar.rules, grammar.root)}
    rules = _productive(rules)
    if grammar.root not in rules:
        raise GrammarError(f"{_named(grammar.root)} matches nothing: no text can ever satisfy it")
    rules = {name: rules[name] for name in _reachable(rules, grammar.root)}
    if (depth := _reference_depth(rules, grammar.root)) > MAX_REFERENCE_DEPTH:
        raise GrammarError(f"rules refer to each other {depth} levels deep; at most {MAX_REFERENCE_DEPTH} are possible")
    return Grammar(rules, grammar.root)


def _named(name: str) -> str:
    return f"rule {name if len(name) <= _SHOWN_CHARACTERS else name[:_SHOWN_CHARACTERS] + '...'}"


def _check_sizes(body: Node) -> None:
    """Depth, counts and the sizes of single nodes. Iterative: depth is what is in question."""
    stack = [(body, 1)]
    while stack:
        current, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise GrammarError(
                f"parts are nested over {MAX_DEPTH} levels deep; name inner parts as rules", _place(current)
            )
        if isinstance(current, Repeat):
            _check_counts(current)
        if isinstance(current, SubstringOf) and sum(map(len, current.chunks)) > MAX_SUBSTRING_CHARACTERS:
            sentence = f"substrings of more than {MAX_SUBSTRING_CHARACTERS} characters are not possible; use less text"
            raise GrammarError(sentence, current.position)
        stack.extend((child, depth + 1) for child in children(current))


def _check_counts(node: Repeat) -> None:
    if node.most is not None and node.most < node.least:
        raise GrammarError(
            f"a repetition of at least {node.least} and at most {node.most} matches nothing", node.position
        )
    if max(node.least, node.most or 0) > MAX_COUNT:
        raise GrammarError(f"a repetition count is over {MAX_COUNT}; use a smaller one", node.position)


def _place(node: Node) -> Position | None:
    return node.position


def _check_names(grammar: Grammar) -> None:
    if grammar.root not in grammar.rules:
        raise GrammarError(f"{_named(grammar.root)} is not defined, and the text begins with it")
    for body in grammar.rules.values():
        stack = [body]
        while stack:
            current = stack.pop()
            if isinstance(current, Reference) and current.name not in grammar.rules:
                raise GrammarError(f"{_named(current.name)} is not defined", current.position)
            stack.extend(children(current))


def _reachable(rules: Mapping[str, Node], root: str) -> Iterable[str]:
    """Names in the order in which they are met."""
    found, stack = {root: None}, [root]
    while stack:
        for name in references(rules[stack.pop()]):
            if name not in found:
                found[name] = None
                stack.append(name)
    return found


def _productive(rules: Mapping[str, Node]) -> dict[str, Node]:
    """Without rules and options that match nothing: the least fixpoint of "can match something"."""
    users: dict[str, set[str]] = {name: set() for name in rules}
    for name, body in rules.items():
        for used in references(body):
            users[used].add(name)
    able: set[str] = set()
    pending = dict.fromkeys(rules)
    while pending:
        name = next(iter(pending))
        del pending[name]
        if name not in able and _can_match(rules[name], able):
            able.add(name)
            pending.update(dict.fromkeys(users[name] - able))
    if len(able) == len(rules):
        return dict(rules)
    return {name: normalised(_without(rules[name], able.__contains__)) for name in rules if name in able}


def _can_match(node: Node, able: set[str]) -> bool:
    match node:
        case Reference(name):
            return name in able
        case CharacterClass(ranges):
            return bool(ranges)
        case Sequence(parts):
            return all(_can_match(part, able) for part in parts)
        case Choice(options):
            return any(_can_match(option, able) for option in options)
        case Repeat(body, least):
            return least == 0 or _can_match(body, able)
        case TokenSet(ids, negated):
            return negated or bool(ids)
        case Text() | FreeText():
            return True  # impossible ones are gone: see normal_form
        case _:
            return all(_can_match(child, able) for child in children(node))


def _without(node: Node, is_able: Callable[[str], bool]) -> Node:
    """With nothing in the place of references to rules that match nothing."""
    match node:
        case Reference(name):
            return node if is_able(name) else NOTHING
        case Sequence(parts):
            return Sequence(tuple(_without(part, is_able) for part in parts))
        case Choice(options):
            return Choice(tuple(_without(option, is_able) for option in options))
        case Repeat(body, least, most):
            inner = _without(body, is_able)
            return EMPTY if inner == NOTHING and least == 0 else Repeat(inner, least, most)
        case Shortest(body):
            return Shortest(_without(body, is_able))
        case TokenSet(ids, False) if not ids:
            return NOTHING
        case _:
            return node


def _reference_depth(rules: Mapping[str, Node], root: str) -> int:
    """How deep somebody gets who follows all references from the root, each rule once."""
    deepest, seen = 1, {root}
    path = [iter(dict.fromkeys(references(rules[root])))]
    while path:
        name = next(path[-1], None)
        if name is None:
            path.pop()
        elif name not in seen:
            seen.add(name)
            path.append(iter(dict.fromkeys(references(rules[name]))))
            deepest = max(deepest, len(path))
    return deepest
