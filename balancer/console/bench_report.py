"""What a bench found, as lines. Pure."""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from balancer.console.settings import BenchSettings
from balancer.console.text import clipped, counted, duration, fitted, rate


@dataclass(slots=True)
class Findings:
    """Filled while it runs. Durations in seconds. `gaps`: between two reads of a stream that brought text.

    `counts_events`: of some answers no count of tokens came, so their pieces of text were counted.
    """

    answered: int = 0
    generated_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    counts_events: bool = False
    first_token: "array[float]" = field(default_factory=lambda: array("f"))
    gaps: "array[float]" = field(default_factory=lambda: array("f"))
    request: "array[float]" = field(default_factory=lambda: array("f"))
    failures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def failed(self) -> int:
        """How many did not end well."""
        return self.failures.total()


def percentile(ordered: Sequence[float], fraction: float) -> float | None:
    """The smallest value that is not less than that part of them; None of nothing. `ordered` ascends."""
    if not ordered:
        return None
    rank = -(-len(ordered) * fraction // 1)  # rounded up
    return ordered[min(max(int(rank), 1), len(ordered)) - 1]


def report_lines(settings: BenchSettings, found: Findings, width: int) -> list[str]:
    """The figures, then what failed and what to do about it."""
    lines = [
        f"{counted(settings.requests, 'request')}, {settings.streams} at once, prompts of about "
        f"{counted(settings.prompt_tokens, 'token')}, answers of at most {settings.max_tokens}: {settings.api}",
        "",
        _pair("tokens/s", f"{_rate(found.generated_tokens, found)}", f"{_generated(found)} in {found.seconds:.1f} s"),
        _pair("prompt tokens/s", _rate(found.prompt_tokens, found), _prompts(found)),
        _pair("requests/s", _rate(found.answered, found), f"{counted(found.answered, 'request')} answered"),
        "",
        f"{'':<22}{'p50':>10}{'p95':>10}{'p99':>10}",
        _percentiles("time to first token", found.first_token),
        _percentiles("between tokens", found.gaps),
        _percentiles("whole request", found.request),
    ]
    if found.failures:
        lines += ["", f"FAILED {counted(found.failed, 'request')} of {settings.requests}:"]
        lines += [f"  {count:>6}  {kind}" for kind, count in found.failures.most_common(12)]
        lines += [f"  -> {advice(found)}"]
    return [clipped(line, width) for line in lines]


def advice(found: Findings) -> str:
    """For the most frequent failure."""
    kind = found.failures.most_common(1)[0][0] if found.failures else ""
    if kind.startswith("503"):
        return "the room was full: fewer --streams, or more slots; `steersman status` shows what serves"
    if kind.startswith("504"):
        return "they waited too long: fewer --streams, or a longer --buffered-request-timeout of the balancer"
    if kind.startswith("401"):
        return "the balancer asks for a key: --key-file FILE"
    if kind.startswith(("400", "404", "422")):
        return "the service refuses the request: check --api, --model, --prompt-tokens and --max-tokens"
    return "`steersman status` shows whether the fleet is well; the balancer's log names each request"


def _pair(name: str, value: str, more: str) -> str:
    return f"{fitted(name, 22)}{value:>10}   ({more})"


def _rate(count: int, found: Findings) -> str:
    return rate(count / found.seconds if found.seconds > 0 else None)


def _generated(found: Findings) -> str:
    of_what = "pieces of text" if found.counts_events else "tokens"
    return f"{found.generated_tokens:,} {of_what}"


def _prompts(found: Findings) -> str:
    if not found.prompt_tokens:
        return "this API does not count them"
    return f"{found.prompt_tokens:,}, of them cached {found.cached_tokens:,}"


def _percentiles(name: str, values: Sequence[float]) -> str:
    ordered = sorted(values)
    shown = "".join(f"{duration(percentile(ordered, fraction)):>10}" for fraction in (0.5, 0.95, 0.99))
    return f"{fitted(name, 22)}{shown}"
