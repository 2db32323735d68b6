"""The agents: who is in which state, their slots and cells, and what they have done, as a fleet and one by one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from balancer.linked_agents import AgentSnapshot, FleetSnapshot
from balancer.metrics.figure_sums import FigureStatistics
from shared.metric_families import Family, figure_families, gauge, gauges

_STATE: Final = ("state",)
_AGENT: Final = ("agent",)


class AgentState(StrEnum):
    """An agent is in the first of these that is true of it."""

    DRAINING = "draining"  # about to end
    HANGING = "hanging"  # its engine does not advance, so it gets no work
    ISSUES = "issues"  # something is wrong; it may serve an older state all the same
    LOADING = "loading"  # on its way to another state
    SERVING = "serving"
    IDLE = "idle"  # no model is wanted


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """Frozen records of one moment. `labels`: of each agent's own series, in the order of `fleet.agents`; None:
    there are none. `engine_patience_seconds`: see `linked_agents.facts_of`."""

    fleet: FleetSnapshot
    sums: FigureStatistics
    labels: tuple[str, ...] | None
    engine_patience_seconds: float


def fleet_families(figures: FleetFigures) -> Iterator[Family]:
    """All of them, with every state at 0 that no agent is in."""
    agents = figures.fleet.agents
    states = Counter(state_of(agent, figures.engine_patience_seconds) for agent in agents)
    yield gauges("agents", "Linked agents, each in one state", _STATE, (((one,), states[one]) for one in AgentState))
    yield gauge(
        "agent_heartbeat_age_seconds",
        "Since the balancer last heard of the agent that it has not heard of for the longest time",
        max((agent.last_heard_age_seconds for agent in agents), default=0.0),
    )
    for name, (help_text, values) in _gauges_of(agents).items():
        shown = name if name == "slots" else f"fleet_{name}"
        yield gauges(shown, help_text, _STATE, (((state,), value) for state, value in values.items()))
    yield from figure_families("fleet_", (), {(): figures.sums.fleet})
    if figures.labels is not None:
        yield from _families_by_agent(figures, figures.labels)


def state_of(agent: AgentSnapshot, engine_patience_seconds: float) -> AgentState:
    """The word for an agent's state."""
    status = agent.status
    age = status.last_step_age_seconds
    if status.draining:
        return AgentState.DRAINING
    if age is not None and 0 < engine_patience_seconds <= age:
        return AgentState.HANGING
    if status.issues:
        return AgentState.ISSUES
    if status.swap_phase is not None:
        return AgentState.LOADING
    return AgentState.SERVING if status.accepting and status.slots_total > 0 else AgentState.IDLE


def _gauges_of(agents: Sequence[AgentSnapshot]) -> dict[str, tuple[str, dict[str, int]]]:
    """Summed over some agents: name to help and figures by state. A slot that another balancer has taken is neither."""
    statuses = [agent.status for agent in agents]
    free_slots = (
        agent.status.slots_total - max(agent.slots_processing, agent.status.slots_processing) for agent in agents
    )
    return {
        "slots": (
            "Slots: taken by this balancer, and free for it",
            {
                "processing": sum(agent.slots_processing for agent in agents),
                "free": sum(max(0, free) for free in free_slots),
            },
        ),
        "kv_cells": (
            "Cells of the context pools: of running requests, of idle prefixes, and free",
            {
                "running": sum(max(0, one.used_cells - one.cached_tokens) for one in statuses),
                "cached": sum(one.cached_tokens for one in statuses),
                "free": sum(max(0, one.context_cells - one.used_cells) for one in statuses),
            },
        ),
        "model_download_bytes": (
            "Bytes of the models that agents download: there already, and in all (0: not known)",
            {
                "current": sum(one.download_current for one in statuses),
                "total": sum(one.download_total for one in statuses),
            },
        ),
    }


def _families_by_agent(figures: FleetFigures, labels: Sequence[str]) -> Iterator[Family]:
    """Gauges of the agents that are linked; counters of all that ever were, since a counter must not vanish."""
    grouped: dict[str, list[AgentSnapshot]] = {}
    for label, agent in zip(labels, figures.fleet.agents, strict=True):
        grouped.setdefault(label, []).append(agent)
    by_label = {label: _gauges_of(agents) for label, agents in grouped.items()}
    for name, (help_text, _) in _gauges_of(()).items():
        values = (
            ((label, state), value) for label, found in by_label.items() for state, value in found[name][1].items()
        )
        yield gauges(f"agent_{name}", help_text, ("agent", *_STATE), values)
    yield from figure_families("agent_", _AGENT, {(label,): one for label, one in figures.sums.by_label.items()})
