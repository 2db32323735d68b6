"""Tables that a person reads and pastes into docs/performance.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should be: at least `value`, or at most."""

    value: float
    at_least: bool = True

    def verdict(self, ratio: float) -> str:
        """`ok`, `within 10 %`, or `missed`."""
        good = ratio >= self.value if self.at_least else ratio <= self.value
        near = ratio >= self.value * 0.9 if self.at_least else ratio <= self.value * 1.1
        sign = ">=" if self.at_least else "<="
        return f"{sign} {self.value:g}: {'ok' if good else 'within 10 %' if near else 'missed'}"


def spread(values: Sequence[float], unit: str = "", digits: int = 1) -> str:
    """Median with the smallest and the largest value."""
    low, middle, high = min(values), median(values), max(values)
    return f"{middle:.{digits}f}{unit} ({low:.{digits}f}-{high:.{digits}f})"


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table under a title."""
    lines = [f"### {title}", "", "| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, ""])
