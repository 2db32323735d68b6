"""What an agent says of itself, for tests of whoever hears it."""

from typing import Any

from shared.agent_status import AgentStatus, StateApplicationStatus


def agent_status(slots: int = 4, **changes: Any) -> AgentStatus:
    """An agent that serves with all its slots free; `changes` replace fields."""
    fields: dict[str, Any] = {
        "status_version": 1,
        "desired_slots_total": slots,
        "slots_total": slots,
        "slots_processing": 0,
        "accepting": True,
        "draining": False,
        "state_application_status": StateApplicationStatus.APPLIED,
        "applied_revision": None,
        "swap_phase": None,
        "issues": [],
        "model_path": None,
        "uses_chat_template_override": False,
    }
    return AgentStatus.model_validate({**fields, **changes})
