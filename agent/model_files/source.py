"""From a model source of the desired state to files that are on this host and worth loading."""

import os
from dataclasses import dataclass

from agent.model_files.errors import ModelFileError
from agent.model_files.header import GgufHeader, read_header
from agent.model_files.parts import check_parts
from shared.desired_state import HuggingFaceSource, LocalToAgentSource, ModelSource, UrlSource


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model whose header was read and whose parts are all there. `path` is what llama.cpp is given."""

    path: str
    header: GgufHeader
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoModel:
    """The source is "None": nothing is to be loaded."""


@dataclass(frozen=True, slots=True)
class FileProblem:
    """The file cannot be used; `error` says why and of which kind that is."""

    path: str
    error: ModelFileError


@dataclass(frozen=True, slots=True)
class SourceRefused:
    """The source itself cannot be used by this agent: `sentence` says what to do instead."""

    model_path: str  # how the source is named in an agent's issue
    sentence: str


Resolution = ResolvedModel | NoModel | FileProblem | SourceRefused


def resolve(source: ModelSource) -> Resolution:
    """Look at the files behind `source`. Reads headers only (see `read_header`): quick, but it blocks."""
    match source:
        case "None":
            return NoModel()
        case LocalToAgentSource(LocalToAgent=path):
            return _resolve_local(path)
        case HuggingFaceSource(HuggingFace=file):
            return _not_supported_yet(f"{file.repo_id}/{file.revision}/{file.filename}", "Hugging Face")
        case UrlSource(Url=file):
            return _not_supported_yet(file.url, "a URL")


def _resolve_local(path: str) -> ResolvedModel | FileProblem | SourceRefused:
    if not os.path.isabs(path):
        return SourceRefused(path, f"LocalToAgent needs an absolute path on the agent's host, not {path!r}")
    try:
        header = read_header(path)
        return ResolvedModel(path=path, header=header, parts=check_parts(header))
    except ModelFileError as error:
        return FileProblem(path, error)


def _not_supported_yet(model_path: str, what: str) -> SourceRefused:
    return SourceRefused(
        model_path, f"not supported yet: a model from {what}; put the file on the agent and use LocalToAgent"
    )
