"""Why a model cannot be proved or loaded, and what else is wrong with its state: in the words of the agent's status."""

from agent.core.swap_events import Problem
from agent.llama.adapters import title
from agent.llama.errors import ContextCannotBeCreated, ModelCannotBeLoaded, ModelLoadAborted
from agent.model_files.errors import ModelFileError, ModelFileMissing
from agent.model_port import LoadGivenUpError
from agent.swap_jobs import model_path_of, source_path
from shared.agent_status import MAX_TEXT_CHARACTERS, AgentIssue, IssueKind
from shared.chat_template_check import compile_fault
from shared.desired_state import AgentDesiredState


def adapter_paths(state: AgentDesiredState) -> dict[str, str]:
    """Files of the state's adapters by their names."""
    return {name: source.LocalToAgent for name, source in (state.lora_adapters or {}).items()}


def problem_of(
    error: ModelCannotBeLoaded | ModelLoadAborted | ContextCannotBeCreated, state: AgentDesiredState
) -> Problem:
    """Of a load or a trial. Raises LoadGivenUpError when that is what it was."""
    if isinstance(error, ModelLoadAborted):
        raise LoadGivenUpError from None
    is_of_slots = isinstance(error, ContextCannotBeCreated)
    kind = IssueKind.SLOT_CANNOT_START if is_of_slots else IssueKind.MODEL_CANNOT_BE_LOADED
    return problem(kind, _path_at_fault(str(error), state), str(error), may_pass=True)


def _path_at_fault(sentence: str, state: AgentDesiredState) -> str:
    """Of the adapter that the sentence names, if it does: it may come from another process."""
    at_fault = (path for name, path in adapter_paths(state).items() if title(name) in sentence)
    return next(at_fault, model_path_of(state))


def problem_of_file(error: ModelFileError, path: str) -> Problem:
    """Of a file that is missing, or is none that a model can be read from."""
    is_missing = isinstance(error, ModelFileMissing)
    kind = IssueKind.MODEL_FILE_DOES_NOT_EXIST if is_missing else IssueKind.MODEL_CANNOT_BE_LOADED
    return problem(kind, path, str(error), may_pass=True)


def notes_on(state: AgentDesiredState, path: str, model_template: str | None) -> tuple[AgentIssue, ...]:
    """What is wrong with the state, and does not keep its model from serving raw prompts."""
    notes = []
    if state.multimodal_projection != "None":
        detail = "not supported yet: images; the projection is ignored and text is served"
        notes.append(
            AgentIssue(
                kind=IssueKind.MULTIMODAL_PROJECTION_CANNOT_BE_LOADED,
                model_path=source_path(state.multimodal_projection),
                detail=detail,
            )
        )
    if state.chat_template_override is not None:
        return tuple(notes)
    if model_template is None:
        detail = "the model file has no chat template and the state overrides none: only raw prompts work"
        notes.append(AgentIssue(kind=IssueKind.UNABLE_TO_FIND_CHAT_TEMPLATE, model_path=path, detail=detail))
    elif (fault := compile_fault(model_template)) is not None:
        detail = f"the model's own chat template does not compile: {fault}; only raw prompts work"
        notes.append(AgentIssue(kind=IssueKind.CHAT_TEMPLATE_DOES_NOT_COMPILE, model_path=path, detail=detail))
    return tuple(notes)


def problem(kind: IssueKind, path: str, sentence: str, *, may_pass: bool) -> Problem:
    """One issue. `may_pass`: whether trying again may help."""
    return Problem((AgentIssue(kind=kind, model_path=path, detail=sentence[:MAX_TEXT_CHARACTERS]),), may_pass)
