"""The agents as lines of a terminal: one row each, cut to its width. Pure; `status` and `top` both draw it."""

from collections.abc import Sequence
from typing import Final

from balancer.console.fleet_snapshot import Agent, Fleet
from balancer.console.text import UNKNOWN, columns_of, fitted, percent, seconds, tail_fitted

_MOST_NAME_COLUMNS: Final = 24
_MOST_MODEL_COLUMNS: Final = 48
_STATE_COLUMNS: Final = 18
_HEADINGS: Final = ("AGENT", "SLOTS", "STATE", "MODEL", "KV", "HEARD")


def agent_lines(fleet: Fleet, width: int) -> list[str]:
    """A heading and a row for each agent, at most `width` columns (from 60); a row is what `row_of` says."""
    rows = [row_of(agent) for agent in fleet.agents]
    widths = _widths(rows, width)
    return [_line(_HEADINGS, widths), *(_line(row, widths) for row in rows)]


def row_of(agent: Agent) -> tuple[str, ...]:
    """Name, busy and all slots, what it does, model, part of the KV pool in use, and when it was heard last."""
    slots = f"{agent.slots_processing}/{agent.slots_total or agent.desired_slots_total}"
    return (
        agent.label,
        slots,
        state_of(agent),
        agent.model_name or UNKNOWN,
        percent(agent.used_cells, agent.context_cells),
        seconds(agent.link.last_heard_age_seconds),
    )


def state_of(agent: Agent) -> str:
    """Two words on what it does."""
    revision = "" if agent.applied_revision is None else f" r{agent.applied_revision}"
    if agent.peer_version_problem and not agent.serves:
        return "other version"
    if agent.draining:
        return "leaving"
    if agent.swap_phase == "loading":
        return f"loading{_progress(agent)}"
    if agent.swap_phase == "proving" and agent.serves:
        return f"serving{revision}, proving"
    if agent.swap_phase is not None:
        return {"draining": "exchanging", "settling": "going back"}.get(agent.swap_phase, agent.swap_phase)
    if agent.serves:
        return f"serving{revision}" + (" !" if agent.issues else "")
    return "cannot serve" if agent.issues else "no model"


def in_order_of_need(agents: Sequence[Agent]) -> list[Agent]:
    """Those first that somebody has to look at, then those that change, then the rest; each in their order."""
    return sorted(agents, key=lambda agent: 0 if agent.issues else 1 if agent.swap_phase or not agent.serves else 2)


def _progress(agent: Agent) -> str:
    total = agent.download.total_bytes
    if not total or agent.download.current_bytes >= total:
        return ""
    return f", {percent(agent.download.current_bytes, total)} here"


def _widths(rows: Sequence[tuple[str, ...]], width: int) -> tuple[int, ...]:
    """Names and models share what the others leave, a name as much as it needs and the model the rest."""
    needed = [
        max([columns_of(heading), *(columns_of(row[at]) for row in rows)]) for at, heading in enumerate(_HEADINGS)
    ]
    name, slots, state, model, cells, heard = needed
    state = min(max(state, 8), _STATE_COLUMNS)
    rest = width - slots - state - cells - heard - 2 * (len(_HEADINGS) - 1)
    name = max(min(name, _MOST_NAME_COLUMNS, rest - min(model, rest // 2)), 5)
    return name, slots, state, max(min(model, _MOST_MODEL_COLUMNS, rest - name), 5), cells, heard


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        tail_fitted(cell, columns) if at == 3 else fitted(cell, columns)
        for at, (cell, columns) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
