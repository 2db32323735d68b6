"""What the management service answers, for the OpenAPI document. All are closed; the shaper is `fleet_view`."""

from typing import Annotated, Literal

from pydantic import Field, RootModel

from balancer.openapi_answers import absent
from shared.agent_status import IssueKind, StateApplicationStatus
from shared.desired_state import AgentDesiredState, StrictModel

Count = Annotated[int, Field(ge=0)]


class Ready(StrictModel):
    """`reason`: why not, where it is not."""

    ready: bool
    wanted_revision: Count | None
    serving_revisions: list[Count]
    slots_total: Count
    reason: str = Field(default_factory=absent)


class BufferedRequests(StrictModel):
    """How many wait for a slot."""

    buffered_requests_current: Count


class IssuePath(StrictModel):
    """Which file."""

    model_path: str


class SlotIssue(StrictModel):
    """Which slot."""

    error: str
    slot_index: Count


class TemplateIssue(StrictModel):
    """Which template."""

    error: str
    model_path: IssuePath
    template_content: str


PaddlerIssue = Annotated[dict[IssueKind, IssuePath | SlotIssue | TemplateIssue], Field(min_length=1, max_length=1)]


class PaddlerAgent(StrictModel):
    """Paddler's 13 keys."""

    desired_slots_total: Count
    download_current: Count
    download_filename: str | None
    download_indeterminate: bool
    download_total: Count
    id: str
    issues: list[PaddlerIssue]
    model_path: str | None
    name: str | None
    slots_processing: Count
    slots_total: Count
    state_application_status: StateApplicationStatus
    uses_chat_template_override: bool


class PaddlerAgents(StrictModel):
    """All of the fleet, by name."""

    agents: list[PaddlerAgent]


class AgentLink(StrictModel):
    """Where it dialled in from, and when it was last heard."""

    remote_address: str | None
    last_heard_age_seconds: float


class Download(StrictModel):
    """`total_bytes`: null while nobody knows."""

    filename: str | None
    current_bytes: Count
    total_bytes: Count | None


class FleetIssue(StrictModel):
    """What is wrong with an agent, in a sentence."""

    kind: IssueKind
    sentence: str
    model_path: str | None


class FleetAgent(StrictModel):
    """Everything about one agent; cells are tokens of the shared pool."""

    id: str
    name: str | None
    software_version: str
    link: AgentLink
    peer_version_problem: str | None
    model_path: str | None
    state_application_status: StateApplicationStatus
    applied_revision: Count | None
    swap_phase: Literal["proving", "draining", "loading", "settling"] | None
    uses_chat_template_override: bool
    accepting: bool
    draining: bool
    desired_slots_total: Count
    slots_total: Count
    slots_processing: Count
    slots_processing_for_all_balancers: Count
    request_limit_tokens: Count
    context_cells: Count
    used_cells: Count
    cached_tokens: Count
    last_step_age_seconds: float | None
    download: Download
    issues: list[FleetIssue]


class Fleet(StrictModel):
    """Revisions are those of the desired state. `state_database_problem`: why the state database cannot be used, and
    where it is; null while it answers."""

    state_database_problem: str | None
    wanted_revision: Count | None
    serving_revisions: list[Count]
    slots_total: Count
    slots_processing: Count
    agents: list[FleetAgent]


class Story(StrictModel):
    """What the balancer remembers of a request, line by line."""

    request_id: str
    story: list[str]


class ModelMetadata(StrictModel):
    """Of the model's file."""

    metadata: dict[str, str]


class TemplateOverride(StrictModel):
    """The chat template that replaces the model's own."""

    content: str


class ApplicableState(RootModel[AgentDesiredState | None]):
    """What agents were told to apply; null until the desired state is known."""


class MaybeModelMetadata(RootModel[ModelMetadata | None]):
    """Null: the agent serves no model."""


class MaybeTemplateOverride(RootModel[TemplateOverride | None]):
    """Null: the model's own is in use."""
