"""Facts that the swap of models is told, and what it asks for in return. Proofs pass through it unopened."""

from dataclasses import dataclass
from typing import Literal

from shared.agent_status import AgentIssue
from shared.desired_state import AgentDesiredState

Phase = Literal["proving", "draining", "loading", "settling"]
"""The steps of a swap, as the status shows them."""

Proof = object
"""What a proof brought to be used by the load (a vocabulary, a header): the runtime's own business."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A state and its place in the order of states."""

    revision: int
    state: AgentDesiredState


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a state cannot be applied. `may_pass`: the same state may work later (the file appears, memory is freed)."""

    issues: tuple[AgentIssue, ...]
    may_pass: bool


# Facts


@dataclass(frozen=True, slots=True)
class StateWanted:
    """A balancer wants this state; whoever feeds it has settled which balancer's word counts."""

    revision: int
    state: AgentDesiredState


@dataclass(frozen=True, slots=True)
class SlotsInUse:
    """So many requests are in flight."""

    count: int


@dataclass(frozen=True, slots=True)
class Proved:
    """The state would work. `notes` are issues that do not keep the model from serving."""

    proof: Proof
    notes: tuple[AgentIssue, ...] = ()


@dataclass(frozen=True, slots=True)
class ProofRefused:
    """The state would not work."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class ProofGivenUp:
    """The proof was ended because of `GiveUp`: nothing is known of the state."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The exchange ended well: the new model serves."""


@dataclass(frozen=True, slots=True)
class LoadRefused:
    """The old model is gone and the new one did not load."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class LoadGivenUp:
    """The load was ended because of `GiveUp`: no model is loaded, and nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Unloaded:
    """The exchange for a state without a model ended."""


@dataclass(frozen=True, slots=True)
class ModelLost:
    """The engine of the model that served died; its model is closed and its requests have ended."""

    issue: AgentIssue


@dataclass(frozen=True, slots=True)
class TimePassed:
    """`next_deadline` is reached."""


Event = (
    StateWanted
    | SlotsInUse
    | Proved
    | ProofRefused
    | ProofGivenUp
    | Loaded
    | LoadRefused
    | LoadGivenUp
    | Unloaded
    | ModelLost
    | TimePassed
)

# Orders


@dataclass(frozen=True, slots=True)
class Prove:
    """Find out whether the state would work; answered by Proved, ProofRefused or ProofGivenUp. Without `reload` only
    what needs no weights has to be looked at: the template, the projection."""

    state: AgentDesiredState
    reload: bool


@dataclass(frozen=True, slots=True)
class Exchange:
    """Free the model that is loaded, if any, then load the proved one (no proof: leave it at that). Answered by
    Loaded, LoadRefused, LoadGivenUp or Unloaded."""

    state: AgentDesiredState
    proof: Proof | None


@dataclass(frozen=True, slots=True)
class UseSettings:
    """From the next request on use this state's sampling parameters and template. Not answered."""

    state: AgentDesiredState


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The proof or load that runs is for a state that nobody wants any more. Not answered by itself."""


@dataclass(frozen=True, slots=True)
class DropProof:
    """Free what the proof holds; it will not be used. Not answered."""

    proof: Proof


Action = Prove | Exchange | UseSettings | GiveUp | DropProof


@dataclass(frozen=True, slots=True)
class Operation:
    """What a worker does now. `restoring`: for the model that served before. `reload`: weights or context are made
    anew. `proof`: only while exchanging."""

    kind: Literal["proving", "exchanging"]
    target: Wanted
    restoring: bool
    reload: bool
    proof: Proved | None = None
