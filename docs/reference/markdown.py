"""Little pieces of Markdown. Pure."""

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table. A bar within a cell stays within it; a last column without head and text is left out."""
    rows = [list(row) for row in rows]
    if not heads[-1] and not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return [_row(heads), "|" + " --- |" * len(heads), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in (cell.replace("|", "\\|") for cell in cells))


def code(text: str) -> str:
    """As code; a text without a backtick."""
    return f"`{text}`"
