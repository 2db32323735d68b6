"""The vocabulary over llama.cpp: text survives the way there and back, a lease keeps it, misuse is a ValueError."""

import threading
from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.llama.errors import ModelCannotBeLoaded
from agent.llama.vocabulary import LlamaVocabulary, VocabularyLease, load_vocabulary
from tests.support.tiny_model import (
    BOS_TOKEN,
    BYTE_TOKENS_START,
    EOS_TOKEN,
    TinyModel,
    demo_model_path,
    tiny_model_path,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def vocabulary(folder: Path) -> Iterator[LlamaVocabulary]:
    with load_vocabulary(str(tiny_model_path(folder))) as lease:
        yield lease.vocabulary


def text_of(vocabulary: LlamaVocabulary, tokens: list[int]) -> str:
    return b"".join(vocabulary.token_piece(token) for token in tokens).decode()


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_text_survives_the_way_through_tokens(vocabulary: LlamaVocabulary, text: str) -> None:
    tokens = vocabulary.tokenize(text, add_special=False, parse_special=False)

    assert text_of(vocabulary, tokens) == text


def test_a_text_that_needs_a_token_for_each_byte_gets_its_second_pass(vocabulary: LlamaVocabulary) -> None:
    text = "\u6f22" * 500

    tokens = vocabulary.tokenize(text, add_special=False, parse_special=False)

    assert len(tokens) == 1500
    assert text_of(vocabulary, tokens) == text


def test_a_nul_in_the_text_does_not_end_it(vocabulary: LlamaVocabulary) -> None:
    tokens = vocabulary.tokenize("a\0b", add_special=False, parse_special=False)

    assert BYTE_TOKENS_START in tokens  # the token of byte 0
    assert text_of(vocabulary, tokens) == "a\0b"


def test_bos_is_added_when_the_metadata_asks_and_only_then(folder: Path, vocabulary: LlamaVocabulary) -> None:
    assert vocabulary.adds_bos
    assert vocabulary.tokenize("", add_special=True, parse_special=True) == [BOS_TOKEN]
    assert vocabulary.tokenize("", add_special=False, parse_special=True) == []
    with load_vocabulary(str(tiny_model_path(folder, TinyModel(add_bos=False)))) as lease:
        assert not lease.vocabulary.adds_bos
        assert lease.vocabulary.tokenize("", add_special=True, parse_special=True) == []


def test_special_tokens_are_parsed_or_read_as_text_as_asked(vocabulary: LlamaVocabulary) -> None:
    assert vocabulary.tokenize("</s>", add_special=False, parse_special=True) == [EOS_TOKEN]
    as_text = vocabulary.tokenize("</s>", add_special=False, parse_special=False)
    assert EOS_TOKEN not in as_text
    assert text_of(vocabulary, as_text) == "</s>"


def test_control_tokens_have_a_name_and_no_text(vocabulary: LlamaVocabulary) -> None:
    assert vocabulary.token_piece(EOS_TOKEN) == b""
    assert vocabulary.token_text(EOS_TOKEN) == "</s>"
    assert vocabulary.bos_token == BOS_TOKEN
    assert vocabulary.eos_token == EOS_TOKEN


def test_the_ends_of_generation_are_known(vocabulary: LlamaVocabulary) -> None:
    assert vocabulary.is_end_of_generation(EOS_TOKEN)
    assert not vocabulary.is_end_of_generation(BYTE_TOKENS_START)
    assert vocabulary.end_of_generation_tokens == {EOS_TOKEN}


@pytest.mark.parametrize("token", [-1, 512, 2**31, -(2**40)])
def test_a_token_outside_the_vocabulary_is_a_value_error(vocabulary: LlamaVocabulary, token: int) -> None:
    for ask in (vocabulary.token_piece, vocabulary.token_text, vocabulary.is_end_of_generation):
        with pytest.raises(ValueError, match="not in the vocabulary"):
            ask(token)


def test_a_lone_surrogate_is_a_value_error(vocabulary: LlamaVocabulary) -> None:
    with pytest.raises(ValueError):
        vocabulary.tokenize("\ud800", add_special=False, parse_special=False)


def test_it_lives_until_the_last_lease_ends(folder: Path) -> None:
    first = load_vocabulary(str(tiny_model_path(folder)))
    vocabulary = first.vocabulary
    second = vocabulary.lease()

    first.release()
    first.release()  # a second time changes nothing

    assert second.vocabulary.tokenize("a", add_special=False, parse_special=False)
    second.release()
    with pytest.raises(RuntimeError):
        vocabulary.tokenize("a", add_special=False, parse_special=False)
    with pytest.raises(RuntimeError):
        vocabulary.lease()
    with pytest.raises(RuntimeError):
        _ = first.vocabulary


def test_threads_may_tokenise_at_once(vocabulary: LlamaVocabulary) -> None:
    text = "the rain in Spain stays mainly in the plain. " * 50
    expected = vocabulary.tokenize(text, add_special=True, parse_special=True)
    results: list[list[int]] = []

    def work() -> None:
        results.extend(vocabulary.tokenize(text, add_special=True, parse_special=True) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(results) == 40
    assert all(tokens == expected for tokens in results)


def test_a_model_without_a_tokenizer_is_refused_since_its_first_text_would_abort(folder: Path) -> None:
    path = folder / "no-vocabulary.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(10)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()

    with pytest.raises(ModelCannotBeLoaded, match="no vocabulary"):
        load_vocabulary(str(path))


def test_metadata_that_wants_a_bos_it_does_not_name_adds_none(folder: Path) -> None:
    # llama.cpp falls back to token 1 for this kind of vocabulary, so the id is set to one that is out of range.
    path = folder / "bos-out-of-range.gguf"
    content = tiny_model_path(folder).read_bytes()
    key = b"tokenizer.ggml.bos_token_id" + (4).to_bytes(4, "little")
    assert content.count(key) == 1
    path.write_bytes(content.replace(key + (1).to_bytes(4, "little"), key + (2**31).to_bytes(4, "little")))

    with load_vocabulary(str(path)) as lease:
        assert lease.vocabulary.tokenize("a", add_special=True, parse_special=True)


@pytest.mark.parametrize("path", ["/nowhere/model.gguf", "/dev/null", "a\0b"])
def test_what_is_no_model_is_refused_with_a_sentence(path: str) -> None:
    with pytest.raises(ModelCannotBeLoaded):
        load_vocabulary(path)


@pytest.mark.model
def test_the_demo_model_tokenises_its_chat_markers_and_wants_no_bos() -> None:
    lease: VocabularyLease
    with load_vocabulary(str(demo_model_path())) as lease:
        vocabulary = lease.vocabulary
        assert vocabulary.size == 49_152
        assert not vocabulary.adds_bos
        tokens = vocabulary.tokenize("<|im_start|>user\nHi 😀", add_special=True, parse_special=True)
        assert vocabulary.token_text(tokens[0]) == "<|im_start|>"
        assert text_of(vocabulary, tokens[1:]) == "user\nHi 😀"
        assert len(vocabulary.tokenize("<|im_start|>", add_special=False, parse_special=False)) > 1
