"""Values on a terminal: nothing that moves the cursor, columns that line up, numbers that one reads at a glance. Pure.

What agents and clients call themselves is shown to people on call; a control character in it must not draw.
"""

import math
import unicodedata

ELLIPSIS = "…"
UNKNOWN = "-"


def printable(text: str) -> str:
    """One line without control characters, line breaks, and marks that turn the direction of writing."""
    return "".join(character if character.isprintable() else "?" for character in text)


def escaped_json(text: str) -> str:
    """A JSON document, its line breaks kept and everything else that is not printable as `\\uXXXX`."""
    return "".join(one if one == "\n" or one.isprintable() else _unit_escapes(one) for one in text)


def _unit_escapes(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def columns_of(text: str) -> int:
    """How many columns a terminal gives it."""
    return sum(_columns(character) for character in text)


def fitted(text: str, columns: int) -> str:
    """Exactly that many columns: filled up with spaces, or cut with an ellipsis."""
    if columns <= 0:
        return ""
    width = columns_of(text)
    if width <= columns:
        return text + " " * (columns - width)
    kept: list[str] = []
    room = columns - 1
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept.append(character)
    cut = "".join(kept) + ELLIPSIS
    return cut + " " * (columns - columns_of(cut))


def clipped(text: str, columns: int) -> str:
    """At most that many columns."""
    return text if columns_of(text) <= columns else fitted(text, columns).rstrip()


def tail_fitted(text: str, columns: int) -> str:
    """`fitted`, but a long one loses its beginning: of a path the end says more."""
    if columns_of(text) <= columns or columns <= 1:
        return fitted(text, columns)
    cut = text
    while columns_of(cut) > columns - 1:
        cut = cut[1:]
    return fitted(ELLIPSIS + cut, columns)


def wrapped(text: str, columns: int, first: str, others: str) -> list[str]:
    """Lines of at most that many columns, broken between words; `first` and `others` begin them. A word that is wider
    than a line is broken too."""
    lines, line = [], first
    is_empty = True
    for word in text.split():
        if not is_empty and columns_of(line) + 1 + columns_of(word) <= columns:
            line += f" {word}"
            continue
        if not is_empty:
            lines.append(line)
            line = others
        for character in word:
            if columns_of(line) + _columns(character) > columns:
                lines.append(line)
                line = others
            line += character
        is_empty = False
    return [*lines, line]


def seconds(value: float | None) -> str:
    """`0.4s`, `12s`, `3m`, `2h`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value < 10:
        return f"{value:.1f}s"
    if value < 120:
        return f"{value:.0f}s"
    return f"{value / 60:.0f}m" if value < 7200 else f"{value / 3600:.0f}h"


def duration(value: float | None) -> str:
    """Of one request or token: `820 us`, `21 ms`, `1.24 s`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value < 0.001:
        return f"{value * 1e6:.0f} us"
    if value < 0.01:
        return f"{value * 1e3:.1f} ms"
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.2f} s"


def rate(value: float | None) -> str:
    """Per second: `3.2`, `139`, `41,200`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def percent(part: float | None, whole: float | None) -> str:
    """`63%`; unknown of nothing."""
    return UNKNOWN if part is None or not whole else f"{100 * min(part / whole, 1.0):.0f}%"


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """`1 agent`, `2 agents`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
