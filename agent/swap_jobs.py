"""What a swap has done in worker threads: blocking calls into the runtime, with every outcome turned into a fact."""

import logging
import threading
from dataclasses import dataclass

from agent.core import swap_events as facts
from agent.model_port import LoadedModel, LoadGivenUpError, ModelRuntime
from shared.agent_status import MAX_TEXT_CHARACTERS, AgentIssue, IssueKind
from shared.desired_state import (
    AgentDesiredState,
    HuggingFaceSource,
    LocalToAgentSource,
    ModelSource,
    UrlSource,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SwapResult:
    """The fact that ends the operation, and the model that was loaded, if one was."""

    event: facts.Event
    model: LoadedModel | None = None


def prove(runtime: ModelRuntime, state: AgentDesiredState, give_up: threading.Event, *, reload: bool) -> SwapResult:
    """Proved, ProofRefused or ProofGivenUp."""
    if give_up.is_set():
        return SwapResult(facts.ProofGivenUp())
    try:
        outcome = runtime.prove(state, lambda: not give_up.is_set(), reload=reload)
    except LoadGivenUpError:
        return SwapResult(facts.ProofGivenUp())
    except Exception as error:
        logger.exception("a state could not be proved")
        outcome = _unforeseen(state, error)
    return SwapResult(outcome if isinstance(outcome, facts.Proved) else facts.ProofRefused(outcome))


def exchange(
    runtime: ModelRuntime,
    old: LoadedModel | None,
    state: AgentDesiredState,
    proof: facts.Proof | None,
    give_up: threading.Event,
) -> SwapResult:
    """Loaded, LoadRefused, LoadGivenUp or Unloaded. The old model is freed before the new one takes memory."""
    if old is not None:
        close_model(old)
    if proof is None:
        return SwapResult(facts.Unloaded())
    if give_up.is_set():
        drop_proof(runtime, proof)
        return SwapResult(facts.LoadGivenUp())
    try:
        outcome = runtime.load(state, proof, lambda: not give_up.is_set())
    except LoadGivenUpError:
        return SwapResult(facts.LoadGivenUp())
    except Exception as error:
        logger.exception("a model could not be loaded")
        outcome = _unforeseen(state, error)
    if isinstance(outcome, facts.Problem):
        return SwapResult(facts.LoadRefused(outcome))
    return SwapResult(facts.Loaded(), outcome)


def close_model(model: LoadedModel) -> None:
    """Free the model; what goes wrong is logged, since nobody could do better."""
    try:
        model.close()
    except Exception:
        logger.exception("model %s could not be closed", model.model_path)


def drop_proof(runtime: ModelRuntime, proof: facts.Proof) -> None:
    """Free what the proof holds."""
    try:
        runtime.drop_proof(proof)
    except Exception:
        logger.exception("a proof could not be dropped")


def model_path_of(state: AgentDesiredState) -> str:
    """How issues name the model of a state; empty when it has none."""
    return source_path(state.model)


def source_path(source: ModelSource) -> str:
    """A source as the wire's issues name it, cut to what an issue holds."""
    match source:
        case LocalToAgentSource(LocalToAgent=path):
            return path
        case HuggingFaceSource(HuggingFace=file):
            return f"{file.repo_id}/{file.revision}/{file.filename}"[:MAX_TEXT_CHARACTERS]
        case UrlSource(Url=file):
            return file.url
        case _:
            return ""


def _unforeseen(state: AgentDesiredState, error: Exception) -> facts.Problem:
    detail = f"unforeseen: {type(error).__name__}; the agent's log has the cause"
    issue = AgentIssue(kind=IssueKind.MODEL_CANNOT_BE_LOADED, model_path=model_path_of(state), detail=detail)
    return facts.Problem((issue,), may_pass=True)
