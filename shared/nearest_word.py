"""Which of the known names somebody may have meant by one that is not known. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

NEAR_ENOUGH: Final = 0.8  # of difflib's 0 to 1; below it, guesses are more often wrong than right
LEAST_BEGINNING_CHARACTERS: Final = 3
MAX_COMPARED_CHARACTERS: Final = 64


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    """The one that is nearly the same, or else the only one that begins so; None when nobody can guess."""
    if len(word) > MAX_COMPARED_CHARACTERS:
        return None
    names = list(dict.fromkeys(known))
    near = get_close_matches(word, names, n=1, cutoff=NEAR_ENOUGH)
    if near:
        return near[0]
    longer = [name for name in names if name.startswith(word)]
    return longer[0] if len(longer) == 1 and len(word) >= LEAST_BEGINNING_CHARACTERS else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The question to stand behind a complaint; empty when nobody can guess."""
    meant = nearest_word(word, known)
    return "" if meant is None else f"; did you mean {meant}?"
