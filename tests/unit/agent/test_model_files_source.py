"""Model sources: what is on this host is looked at, what this agent cannot fetch is said, nothing is ignored."""

from pathlib import Path

import pytest

from agent.model_files.errors import ModelFileMissing, ModelFileNotGguf
from agent.model_files.source import FileProblem, NoModel, ResolvedModel, SourceRefused, resolve
from shared.desired_state import (
    HuggingFaceFile,
    HuggingFaceSource,
    LocalToAgentSource,
    ModelSource,
    UrlFile,
    UrlSource,
)
from tests.support.gguf_bytes import GgufBytes


def test_no_model_is_a_state_of_its_own() -> None:
    assert resolve("None") == NoModel()


def test_a_good_file_is_resolved_with_its_header(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(GgufBytes().to_bytes())

    resolved = resolve(LocalToAgentSource(LocalToAgent=str(path)))

    assert isinstance(resolved, ResolvedModel)
    assert resolved.path == str(path)
    assert resolved.parts == (str(path),)
    assert resolved.header.architecture == "llama"


@pytest.mark.parametrize("path", ["model.gguf", "./model.gguf", "~/model.gguf", "file:///model.gguf"])
def test_a_relative_path_is_refused(path: str) -> None:
    refused = resolve(LocalToAgentSource(LocalToAgent=path))

    assert isinstance(refused, SourceRefused)
    assert refused.model_path == path
    assert "absolute path" in refused.sentence


def test_a_missing_and_a_foreign_file_are_problems_of_their_own_kind(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.gguf"
    foreign.write_text("not a model")
    missing = tmp_path / "missing.gguf"

    for path, kind in ((missing, ModelFileMissing), (foreign, ModelFileNotGguf)):
        problem = resolve(LocalToAgentSource(LocalToAgent=str(path)))
        assert isinstance(problem, FileProblem)
        assert problem.path == str(path)
        assert isinstance(problem.error, kind)


@pytest.mark.parametrize(
    ("source", "model_path"),
    [
        (
            HuggingFaceSource(HuggingFace=HuggingFaceFile(filename="f.gguf", repo_id="a/b", revision="main")),
            "a/b/main/f.gguf",
        ),
        (UrlSource(Url=UrlFile(url="https://example.org/m.gguf")), "https://example.org/m.gguf"),
    ],
    ids=["hugging face", "url"],
)
def test_a_source_for_later_says_so(source: ModelSource, model_path: str) -> None:
    refused = resolve(source)

    assert isinstance(refused, SourceRefused)
    assert refused.model_path == model_path
    assert refused.sentence.startswith("not supported yet: ")
