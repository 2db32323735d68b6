"""What the agent says of itself as Prometheus' families: the same names as on a balancer's page with `--agent-metrics`,
without the label that tells agents apart there."""

from collections.abc import Iterator

from shared.agent_figures import FigureValues
from shared.agent_status import AgentStatus
from shared.metric_families import (
    Family,
    build_families,
    exposition_text,
    figure_families,
    gauges,
    process_families,
)
from shared.version import software_version


def exposition(status: AgentStatus) -> bytes:
    """The whole text; its type is CONTENT_TYPE. Reads files of /proc and takes milliseconds, so call it in a thread."""
    return exposition_text(_families(status))


def _families(status: AgentStatus) -> Iterator[Family]:
    yield _by_state(
        "slots",
        "Slots: taken, over all balancers, and free",
        {
            "processing": status.slots_processing,
            "free": max(0, status.slots_total - status.slots_processing),
        },
    )
    yield _by_state(
        "kv_cells",
        "Cells of the context pool: of running requests, of idle prefixes, and free",
        {
            "running": max(0, status.used_cells - status.cached_tokens),
            "cached": status.cached_tokens,
            "free": max(0, status.context_cells - status.used_cells),
        },
    )
    yield _by_state(
        "model_download_bytes",
        "Bytes of the model that is downloaded: there already, and in all (0: not known)",
        {"current": status.download_current, "total": status.download_total},
    )
    yield from figure_families("agent_", (), {(): FigureValues.of(status.figures)})
    yield from build_families(software_version())
    yield from process_families()


def _by_state(name: str, help_text: str, figures: dict[str, int]) -> Family:
    return gauges(f"agent_{name}", help_text, ("state",), (((state,), value) for state, value in figures.items()))
