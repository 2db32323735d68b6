"""Loading weights: progress, giving up, and a sentence for each way in which it fails."""

import time
from pathlib import Path

import pytest

from agent.llama.errors import ModelCannotBeLoaded, ModelLoadAborted
from agent.llama.model import LlamaModel
from agent.model_files.header import read_header
from tests.support.tiny_model import CHAT_TEMPLATE, TinyModel, demo_model_path, tiny_model_path, write_tiny_model


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model_path(tmp_path_factory.mktemp("models")))


def test_what_the_model_says_agrees_with_its_header(path: str) -> None:
    header = read_header(path)
    model = LlamaModel.load(path)
    try:
        assert model.training_context_tokens == header.context_length == 1024
        assert model.vocabulary_size == header.vocabulary_size == 512
        assert model.layers == 2
        assert model.weight_bytes > 500_000
        assert model.can_generate
        assert model.can_cut_sequences
        assert model.sliding_window_tokens == 0
        assert (model.number("block_count"), model.number("attention.key_length")) == (2, None)
    finally:
        model.close()


def test_the_same_parameters_write_the_same_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first.gguf", tmp_path / "second.gguf"
    model = TinyModel(chat_template=CHAT_TEMPLATE)
    write_tiny_model(first, model)
    write_tiny_model(second, model)

    assert first.read_bytes() == second.read_bytes()
    assert read_header(first).chat_template == CHAT_TEMPLATE


def test_loading_reports_progress_up_to_the_end(path: str) -> None:
    seen: list[float] = []

    LlamaModel.load(path, on_progress=lambda fraction: not seen.append(fraction)).close()  # type: ignore[func-returns-value]

    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_loading_can_be_given_up(path: str) -> None:
    with pytest.raises(ModelLoadAborted):
        LlamaModel.load(path, on_progress=lambda _: False)


def test_what_the_progress_callback_raises_arrives_at_the_caller(path: str) -> None:
    def fail(_: float) -> bool:
        raise KeyError("a fault of ours")

    with pytest.raises(KeyError, match="a fault of ours"):
        LlamaModel.load(path, on_progress=fail)


def test_a_missing_file_and_a_foreign_one_give_llama_cpps_reason(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.gguf"
    foreign.write_text("not a model")

    with pytest.raises(ModelCannotBeLoaded, match=r"foreign\.gguf: .*magic"):
        LlamaModel.load(str(foreign))
    with pytest.raises(ModelCannotBeLoaded, match=r"absent\.gguf: .+"):
        LlamaModel.load(str(tmp_path / "absent.gguf"))
    with pytest.raises(ModelCannotBeLoaded, match="NUL"):
        LlamaModel.load("a\0b")


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    content = tiny_model_path(tmp_path).read_bytes()
    path.write_bytes(content.replace(b"llama", b"lxama"))

    with pytest.raises(ModelCannotBeLoaded, match="lxama"):
        LlamaModel.load(str(path))


def test_closing_twice_is_fine_and_use_afterwards_is_an_error_of_ours(path: str) -> None:
    model = LlamaModel.load(path)
    model.close()
    model.close()

    with pytest.raises(RuntimeError):
        _ = model.pointer


@pytest.mark.model
def test_the_header_of_the_demo_model_is_read_in_no_time() -> None:
    started = time.process_time()
    header = read_header(demo_model_path())

    assert time.process_time() - started < 0.2
    assert (header.architecture, header.context_length, header.vocabulary_size) == ("llama", 8192, 49_152)
    assert header.chat_template is not None


@pytest.mark.model
def test_the_demo_model_loads() -> None:
    model = LlamaModel.load(str(demo_model_path()))
    try:
        assert model.training_context_tokens == 8192
        assert model.can_generate
        assert model.can_cut_sequences
    finally:
        model.close()
