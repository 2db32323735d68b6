"""What the management service says of the fleet, as records. Lenient: a balancer of a neighbouring version is watched
too, so unknown keys are passed over and missing ones have a default. All texts are fit for a terminal."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from balancer.console.text import printable

Shown = Annotated[str, AfterValidator(printable)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Issue(_Record):
    """One thing that is wrong with an agent; `sentence` says it in full."""

    kind: Shown = ""
    sentence: Shown = ""
    model_path: Shown | None = None


class Download(_Record):
    """`total_bytes` None: nobody knows."""

    filename: Shown | None = None
    current_bytes: int = 0
    total_bytes: int | None = None


class Link(_Record):
    """The agent's connection to the balancer that was asked."""

    remote_address: Shown = ""
    last_heard_age_seconds: float | None = None


class Agent(_Record):
    """One agent; the fields are those of `GET /api/v1/fleet`."""

    id: Shown
    name: Shown | None = None
    software_version: Shown = ""
    link: Link = Link()
    peer_version_problem: Shown | None = None
    model_path: Shown | None = None
    state_application_status: Shown = ""
    applied_revision: int | None = None
    swap_phase: Shown | None = None
    accepting: bool = False
    draining: bool = False
    desired_slots_total: int = 0
    slots_total: int = 0
    slots_processing: int = 0
    context_cells: int = 0
    used_cells: int = 0
    last_step_age_seconds: float | None = None
    download: Download = Download()
    issues: list[Issue] = Field(default=[])

    @property
    def label(self) -> str:
        """What people call it; its id when it has no name."""
        return self.name or self.id

    @property
    def serves(self) -> bool:
        """Whether it takes requests."""
        return self.slots_total > 0 and self.accepting and not self.draining

    @property
    def model_name(self) -> str:
        """The file's name, without the folders."""
        return PurePosixPath(self.model_path).name if self.model_path else ""


class Fleet(_Record):
    """`GET /api/v1/fleet`. `wanted_revision` None: the balancer does not know it yet."""

    state_database_problem: Shown | None = None
    wanted_revision: int | None = None
    serving_revisions: list[int] = Field(default=[])
    slots_total: int = 0
    slots_processing: int = 0
    agents: list[Agent]


class Readiness(_Record):
    """`GET /ready`."""

    ready: bool
    reason: Shown = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that `status` looks at. `wanted_model`: the model source as the desired state has it; None when it could not
    be read. `is_store_away`: the state database does not answer."""

    address: str
    readiness: Readiness
    fleet: Fleet
    requests_waiting: int
    wanted_model: Any = None
    is_store_away: bool = False
