"""Prompts of an exact length in tokens that share no prefix with each other."""

import random
from collections.abc import Callable
from typing import Final

Tokenize = Callable[[str], list[int]]

_WORDS: Final = (
    "river stone winter market engine garden letter window bridge copper island teacher valley painter "
    "morning harbour silver journey village kitchen doctor forest summer castle museum captain lantern"
).split()


def exact_prompt(tokenize: Tokenize, tokens: int, seed: int) -> str:
    """A text of exactly `tokens` tokens (BOS included where the model asks for one); another seed, another start."""
    draw = random.Random(seed)
    text = f"{draw.choice(_WORDS).capitalize()} {seed}:"
    while len(tokenize(text)) < tokens:
        text += " " + draw.choice(_WORDS)
    while len(tokenize(text)) > tokens:
        text = text[:-1]
    for _ in range(1000):
        missing = tokens - len(tokenize(text))
        if missing == 0:
            return text
        text = text + " a" * missing if missing > 0 else text[:-1]
    raise RuntimeError(f"found no prompt of exactly {tokens} tokens")
