"""State files: Paddler's are read, ours come back as written, and what nobody understands is refused in words."""

import json
from typing import Any

import pytest

from balancer.desired_state_document import MAX_DOCUMENT_BYTES, read_document, read_state, write_document
from balancer.desired_state_store import NEVER_STORED, StoredState, StoreUnavailable
from shared.desired_state import DEFAULT_DESIRED_STATE

STATE: dict[str, Any] = DEFAULT_DESIRED_STATE.document()


def text(**document: object) -> bytes:
    return json.dumps(document).encode()


def complaint(content: bytes) -> str:
    with pytest.raises(StoreUnavailable) as refused:
        read_document(content, "the state file /x")
    return str(refused.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"  \t\n"])
def test_an_empty_file_was_never_stored(content: bytes) -> None:
    assert read_document(content, "x") == NEVER_STORED


@pytest.mark.parametrize("version", [{"version": "1"}, {"version": ""}, {}])
def test_paddlers_own_files_are_revision_1(version: dict[str, str]) -> None:
    assert read_document(text(balancer_desired_state=STATE, **version), "x") == StoredState(1, DEFAULT_DESIRED_STATE)


def test_what_was_written_is_read() -> None:
    stored = StoredState(7, DEFAULT_DESIRED_STATE)
    written = write_document(stored)
    assert read_document(written, "x") == stored
    assert json.loads(written) == {"balancer_desired_state": STATE, "version": "1", "revision": 7}
    assert written.startswith(b'{\n  "balancer_desired_state": {\n    "chat_template_override": null,')


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "must be an object"),
        (b"\x00\xff", "not valid JSON"),
        (text(), "balancer_desired_state: is required"),
        (text(balancer_desired_state={}), "balancer_desired_state.inference_parameters: is required"),
        (text(balancer_desired_state=STATE, note=1), "note: is not a known field"),
        (text(balancer_desired_state=STATE, version="2", note=1), "may have been written by a newer one"),
        (text(balancer_desired_state=STATE, version=1), "version: must be a string"),
        (text(balancer_desired_state=STATE, revision=0), "revision: must be at least 1"),
        (text(balancer_desired_state=STATE, revision="7"), "revision: must be an integer"),
        (
            text(
                balancer_desired_state={
                    **STATE,
                    "inference_parameters": {**STATE["inference_parameters"], "n_batch": 0},
                }
            ),
            "balancer_desired_state.inference_parameters.n_batch: must be at least 1",
        ),
        (b" " * 5 + b"{" + b" " * MAX_DOCUMENT_BYTES, "is larger than"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_that_names_the_place(content: bytes, says: str) -> None:
    sentence = complaint(content)
    assert sentence.startswith("the state file /x ")
    assert says in sentence
    assert "\n" not in sentence


def test_one_state_alone_is_read_by_the_same_rules() -> None:
    assert read_state(json.dumps(STATE).encode(), "x") == DEFAULT_DESIRED_STATE
    with pytest.raises(StoreUnavailable, match=r"the key k cannot be read: more: is not a known field"):
        read_state(json.dumps({**STATE, "more": 1}).encode(), "the key k")
