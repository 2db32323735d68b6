"""Desired states for tests of the agent, in one line each."""

from typing import Any

from shared.desired_state import (
    DEFAULT_INFERENCE_PARAMETERS,
    AgentDesiredState,
    ChatTemplate,
    InferenceParameters,
    LocalToAgentSource,
    ModelSource,
)


def state(
    model: str | ModelSource = "/models/a.gguf", template: str | None = None, **parameters: Any
) -> AgentDesiredState:
    """A path becomes LocalToAgent; "None" and sources are taken as they are."""
    source: ModelSource = "None"
    if model != "None":
        source = LocalToAgentSource(LocalToAgent=model) if isinstance(model, str) else model
    return AgentDesiredState(
        chat_template_override=None if template is None else ChatTemplate(content=template),
        inference_parameters=InferenceParameters.model_validate(DEFAULT_INFERENCE_PARAMETERS.model_dump() | parameters),
        model=source,
        multimodal_projection="None",
    )
