"""What to mend in a text that is no JSON, by what stands where a parser gave up. Pure; repeats nothing of the text."""

import re
from collections.abc import Mapping
from typing import Final

QUOTES: Final = 'put names and strings into double quotes (")'
BRACKETS: Final = "close each { with } and each [ with ], in order"
TOO_SHORT: Final = "it ends too early: close every string, list and object"
COMMA: Final = "a value is missing, or a comma is one too many"
VALUE: Final = "a value is missing after the colon"
WORDS: Final = "JSON writes true, false and null"
NUMBERS: Final = "numbers must be finite"
CONTROL: Final = "in strings a line break is \\n and a tab \\t"
ANY: Final = (
    "send UTF-8 text with double quotes, matching brackets, finite numbers, whole surrogate pairs and no trailing "
    "commas"
)

_LOOKED_BACK: Final = 64
_WORD: Final = re.compile(r"-?([A-Za-z]\w{0,15})")
_OF_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("True", "False", "None", "TRUE", "FALSE", "NULL", "undefined"), WORDS),
    **dict.fromkeys(("NaN", "nan", "Infinity", "inf"), NUMBERS),
}
_OF_LETTERS: Final[Mapping[str, str]] = {
    **dict.fromkeys("'`‘’“”", QUOTES),  # noqa: RUF001
    **dict.fromkeys("]}", BRACKETS),
    ",": COMMA,
    **dict.fromkeys(map(chr, range(0x20)), CONTROL),
}


def json_advice(text: str, offset: int) -> str:
    """For a `text` in which a parser came up to `offset`; an empty one was not even decoded."""
    if not text:
        return ANY
    if offset >= len(text.rstrip()):
        return TOO_SHORT
    word = _WORD.match(text, offset)
    if word is not None:
        return _OF_WORDS.get(word.group(1), QUOTES)
    if text[offset] in ",}]" and text[max(0, offset - _LOOKED_BACK) : offset].rstrip().endswith(":"):
        return VALUE
    return _OF_LETTERS.get(text[offset], ANY)
