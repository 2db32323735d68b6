"""The automaton of free text: any characters up to a string looked for, and no string that is forbidden.

It is that of Aho and Corasick: a state is the longest prefix of a string looked for that the text so far ends in.
"""

from agent.constraint.lark.alphabet import Alphabet
from agent.constraint.lark.automaton import Automaton, TooManyStates, Transitions
from agent.constraint.tree import FreeText

MAX_FREE_TEXT_STATES = 20_000


def free_text_automaton(node: FreeText, alphabet: Alphabet) -> Automaton:
    """Of text that is not impossible. The alphabet has a minterm for each character. Raises TooManyStates."""
    strings = (*node.avoid, *(() if node.until is None else (node.until,)))
    states = _prefixes(strings)
    fall_back = _fall_backs(states, strings)
    letters = {letter: alphabet.mask_of_character(letter) for string in strings for letter in string}
    others = alphabet.every_character
    for mask in letters.values():
        others &= ~mask
    if len(states) * (len(letters) + 1) > 20 * MAX_FREE_TEXT_STATES:
        raise TooManyStates
    dead = {prefix for prefix in states if any(prefix.endswith(string) for string in node.avoid)}
    table: list[Transitions] = []
    numbers = {prefix: number for number, prefix in enumerate(sorted(states, key=len))}
    for prefix in numbers:
        if prefix in dead or (node.until is not None and prefix.endswith(node.until)):
            table.append([])
            continue
        targets = {numbers[""]: others} if others else {}
        for letter, mask in letters.items():
            target = _step(prefix, letter, states, fall_back)
            if target not in dead:
                targets[numbers[target]] = targets.get(numbers[target], 0) | mask
        table.append([(mask, target) for target, mask in targets.items()])
    if node.until is None:
        return Automaton.of_table(table, [prefix not in dead for prefix in numbers])
    return Automaton.of_table(table, [prefix.endswith(node.until) for prefix in numbers])


def _prefixes(strings: tuple[str, ...]) -> set[str]:
    if sum(map(len, strings)) > MAX_FREE_TEXT_STATES:
        raise TooManyStates
    return {string[:length] for string in strings for length in range(len(string) + 1)} | {""}


def _fall_backs(states: set[str], strings: tuple[str, ...]) -> dict[str, str]:
    """For each prefix the longest other one that it ends in."""
    found = {"": ""}
    for prefix in sorted(states - {""}, key=len):
        shorter = found[prefix[:-1]] if len(prefix) > 1 else None
        while shorter is not None and shorter + prefix[-1] not in states:
            shorter = found[shorter] if shorter else None
        found[prefix] = "" if shorter is None else shorter + prefix[-1]
    return found


def _step(prefix: str, letter: str, states: set[str], fall_back: dict[str, str]) -> str:
    while prefix + letter not in states:
        if not prefix:
            return ""
        prefix = fall_back[prefix]
    return prefix + letter
