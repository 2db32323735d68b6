"""What an agent says about itself: slots, the revision it runs, what is wrong, and its figures."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from shared.agent_figures import AgentFigures
from shared.desired_state import StrictModel

MAX_ISSUES = 300  # one SlotCannotStart per slot, at most 255 slots, and a few others
MAX_TEXT_CHARACTERS = 8192
MAX_CACHED_PREFIX_HASHES = 1024

Text = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Slots = Annotated[int, Field(ge=0, le=2**31 - 1)]  # summed over a fleet, which must stay within the 64 bits of JSON


class StateApplicationStatus(StrEnum):
    """How far an agent got with the state it was told to apply (Paddler's five words)."""

    APPLIED = "Applied"
    ATTEMPTED_AND_NOT_APPLIABLE = "AttemptedAndNotAppliable"
    ATTEMPTED_AND_RETRYING = "AttemptedAndRetrying"
    FRESH = "Fresh"
    STUCK = "Stuck"


class IssueKind(StrEnum):
    """Paddler's words for what can be wrong with an agent; those that this agent can raise so far."""

    MODEL_FILE_DOES_NOT_EXIST = "ModelFileDoesNotExist"
    MODEL_CANNOT_BE_LOADED = "ModelCannotBeLoaded"
    MULTIMODAL_PROJECTION_CANNOT_BE_LOADED = "MultimodalProjectionCannotBeLoaded"
    CHAT_TEMPLATE_DOES_NOT_COMPILE = "ChatTemplateDoesNotCompile"
    UNABLE_TO_FIND_CHAT_TEMPLATE = "UnableToFindChatTemplate"
    SLOT_CANNOT_START = "SlotCannotStart"


class AgentIssue(StrictModel):
    """One thing that is wrong. `payload()` is the shape of Paddler's wire; `detail` is our plain sentence, which
    the fleet view and the logs show."""

    kind: Annotated[IssueKind, Field(strict=False)]
    model_path: Text = ""
    detail: Text = ""
    slot_index: Slots | None = None

    def payload(self) -> dict[str, Any]:
        """`{"Kind": {...}}` exactly as Paddler's clients read it."""
        if self.kind is IssueKind.SLOT_CANNOT_START:
            return {self.kind.value: {"error": self.detail, "slot_index": self.slot_index or 0}}
        if self.kind is IssueKind.CHAT_TEMPLATE_DOES_NOT_COMPILE:
            path = {"model_path": self.model_path}
            return {self.kind.value: {"error": self.detail, "model_path": path, "template_content": ""}}
        return {self.kind.value: {"model_path": self.model_path}}


class AgentStatus(StrictModel):
    """A whole snapshot; the newest `status_version` of a link wins."""

    status_version: Count
    desired_slots_total: Slots
    slots_total: Slots  # 0 until a model serves; also 0 while it is exchanged
    slots_processing: Slots  # over all balancers that this agent is linked to
    accepting: bool  # False while a model is exchanged and while the agent shuts down
    draining: bool  # the agent's process is about to end
    state_application_status: Annotated[StateApplicationStatus, Field(strict=False)]
    applied_revision: Count | None  # revision of the state that serves now
    swap_phase: Literal["proving", "draining", "loading", "settling"] | None
    issues: Annotated[list[AgentIssue], Field(max_length=MAX_ISSUES)]
    model_path: Text | None
    uses_chat_template_override: bool
    download_current: Count = 0
    download_total: Count = 0
    download_filename: Text | None = None
    download_indeterminate: bool = True
    request_limit_tokens: Count = 0  # prompt plus answer of one request
    vocabulary_size: Count = 0  # of the model that serves
    context_cells: Count = 0  # the pool that all slots share, in tokens
    used_cells: Count = 0
    cached_tokens: Count = 0  # cells of idle prefix-cache entries
    last_step_age_seconds: float | None = None  # since the engine last advanced while it had work; None: idle
    cached_prefix_hashes: list[int] = Field(default_factory=list, max_length=MAX_CACHED_PREFIX_HASHES)
    peer_version_problem: Text | None = None  # a balancer that speaks another protocol version
    figures: AgentFigures = Field(default_factory=AgentFigures)  # counted since the agent's process began
