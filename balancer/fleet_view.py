"""Snapshots of the fleet as JSON values: Paddler's 13 keys an agent, our richer view, and readiness. Pure."""

from typing import Any

import orjson

from balancer.management_services import AgentView, FleetView, StatisticsView
from shared.agent_status import AgentIssue, AgentStatus

Json = dict[str, Any]


def agents_document(fleet: FleetView) -> Json:
    """`GET /api/v1/agents`: exactly Paddler's keys, since its JavaScript client refuses others."""
    return {"agents": [_paddler_agent(agent) for agent in _in_order(fleet)]}


def fleet_document(fleet: FleetView, state_database_problem: str | None) -> Json:
    """`GET /api/v1/fleet`. Revisions are those of the desired state; counts of tokens and cells are in tokens."""
    return {
        "state_database_problem": state_database_problem,
        "wanted_revision": fleet.wanted_revision,
        "serving_revisions": serving_revisions(fleet),
        "slots_total": sum(agent.status.slots_total for agent in fleet.agents),
        "slots_processing": sum(agent.slots_processing for agent in fleet.agents),
        "agents": [_our_agent(agent) for agent in _in_order(fleet)],
    }


def buffered_requests_document(statistics: StatisticsView) -> Json:
    """`GET /api/v1/buffered_requests`."""
    return {"buffered_requests_current": statistics.requests_buffered}


def readiness(fleet: FleetView, *, knows_state: bool, is_shutting_down: bool) -> tuple[bool, Json]:
    """Whether any slot serves, and `GET /ready`. It is open to everybody, so it names no path and no host."""
    reason = _why_not_ready(fleet, knows_state=knows_state, is_shutting_down=is_shutting_down)
    document: Json = {
        "ready": reason is None,
        "wanted_revision": fleet.wanted_revision,
        "serving_revisions": serving_revisions(fleet),
        "slots_total": sum(agent.status.slots_total for agent in fleet.agents if _serves(agent)),
    }
    return reason is None, document if reason is None else {**document, "reason": reason}


def serving_revisions(fleet: FleetView) -> list[int]:
    """Ascending; more than one while agents exchange their models."""
    revisions = {agent.status.applied_revision for agent in fleet.agents if _serves(agent)}
    return sorted(revision for revision in revisions if revision is not None)


def _why_not_ready(fleet: FleetView, *, knows_state: bool, is_shutting_down: bool) -> str | None:
    if is_shutting_down:
        return "the balancer is shutting down"
    if any(_serves(agent) for agent in fleet.agents):
        return None
    if not knows_state:
        return "the state database has not answered yet; the balancer's log says why"
    if not fleet.agents:
        return "no agent is connected"
    state = fleet.applicable_state
    if state is not None and state.model == "None":
        return "the desired state names no model"
    if any(agent.status.issues for agent in fleet.agents):
        return "no agent can serve the desired state; GET /api/v1/fleet on the management service shows the issues"
    return "no agent serves a model yet"


def _serves(agent: AgentView) -> bool:
    status = agent.status
    return status.slots_total > 0 and status.accepting and not status.draining


def _in_order(fleet: FleetView) -> list[AgentView]:
    """By name, the nameless last, then by id."""
    return sorted(fleet.agents, key=lambda agent: (agent.name is None, agent.name or "", agent.agent_id))


def _paddler_agent(agent: AgentView) -> Json:
    status = agent.status
    return {
        "desired_slots_total": status.desired_slots_total,
        "download_current": status.download_current,
        "download_filename": status.download_filename,
        "download_indeterminate": status.download_indeterminate,
        "download_total": status.download_total,
        "id": agent.agent_id,
        "issues": _issues(status),
        "model_path": status.model_path,
        "name": agent.name,
        "slots_processing": agent.slots_processing,
        "slots_total": status.slots_total,
        "state_application_status": status.state_application_status.value,
        "uses_chat_template_override": status.uses_chat_template_override,
    }


def _issues(status: AgentStatus) -> list[Json]:
    """A sorted set: each issue once, in an order that does not depend on when it arose."""
    unique = {orjson.dumps(issue.payload(), option=orjson.OPT_SORT_KEYS): issue for issue in status.issues}
    return [issue.payload() for _, issue in sorted(unique.items(), key=_kind_slot_payload)]


def _kind_slot_payload(item: tuple[bytes, AgentIssue]) -> tuple[str, int, bytes]:
    payload, issue = item
    return issue.kind.value, issue.slot_index or 0, payload


def _our_agent(agent: AgentView) -> Json:
    status = agent.status
    return {
        "id": agent.agent_id,
        "name": agent.name,
        "software_version": agent.software_version,
        "link": {
            "remote_address": agent.remote_address,
            "last_heard_age_seconds": round(agent.last_heard_age_seconds, 3),
        },
        "peer_version_problem": status.peer_version_problem,
        "model_path": status.model_path,
        "state_application_status": status.state_application_status.value,
        "applied_revision": status.applied_revision,
        "swap_phase": status.swap_phase,
        "uses_chat_template_override": status.uses_chat_template_override,
        "accepting": status.accepting,
        "draining": status.draining,
        "desired_slots_total": status.desired_slots_total,
        "slots_total": status.slots_total,
        "slots_processing": agent.slots_processing,
        "slots_processing_for_all_balancers": status.slots_processing,
        "request_limit_tokens": status.request_limit_tokens,
        "context_cells": status.context_cells,
        "used_cells": status.used_cells,
        "cached_tokens": status.cached_tokens,
        "last_step_age_seconds": status.last_step_age_seconds,
        "download": {
            "filename": status.download_filename,
            "current_bytes": status.download_current,
            "total_bytes": None if status.download_indeterminate else status.download_total,
        },
        "issues": [_our_issue(issue) for issue in status.issues],
    }


def _our_issue(issue: AgentIssue) -> Json:
    return {"kind": issue.kind.value, "sentence": issue.detail, "model_path": issue.model_path or None}
