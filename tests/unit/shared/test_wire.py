"""The codec: everything comes back as it went, and nothing else gets in."""

import struct
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import wire
from shared.desired_state import DEFAULT_DESIRED_STATE
from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason, Usage
from shared.generation_options import LogprobOptions, SamplingOptions, StopOptions
from shared.messages_from_agent import (
    Accepted,
    Busy,
    ChatTemplateOverride,
    Hello,
    MemberEnd,
    MessageFromAgent,
    ModelMetadata,
    Refused,
    StatusUpdate,
    TokenFrame,
    TokenItem,
)
from shared.messages_to_agent import (
    MAX_CONSTRAINT_BYTES,
    Cancel,
    ConstraintText,
    Generate,
    GetChatTemplateOverride,
    GetModelMetadata,
    MessageToAgent,
    SetState,
    Welcome,
)
from shared.version import PROTOCOL_VERSION
from shared.wire_errors import ProtocolVersionMismatch, WireError
from tests.support.agent_statuses import agent_status

STATUS = agent_status()
HELLO = Hello(agent_id="agent-1", name=None, status=STATUS)

counts = st.integers(0, 2**63 - 1)
items = st.builds(
    TokenItem,
    counts,
    counts,
    counts,
    st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple),
    st.text(max_size=20),
    st.sampled_from(Channel),
    st.none() | st.binary(max_size=20),
)
usages = st.builds(Usage, *([counts] * 6))
failures = st.builds(Failure, st.sampled_from(FailureKind), st.text(max_size=20), st.none() | st.text(max_size=5))
matched = st.none() | st.text(max_size=5) | counts
ends = st.builds(MemberEnd, counts, counts, st.sampled_from(FinishReason), usages, st.none(), matched) | st.builds(
    MemberEnd, counts, counts, st.none(), usages, failures, st.none()
)
frames = st.builds(TokenFrame, st.lists(items, max_size=5).map(tuple), st.lists(ends, max_size=3).map(tuple))


@given(frames)
def test_a_token_frame_comes_back_as_it_went(frame: TokenFrame) -> None:
    assert wire.decode_from_agent(wire.encode_from_agent(frame)) == frame


@pytest.mark.parametrize(
    "message",
    [
        StatusUpdate(status=STATUS),
        Accepted(member=1, attempt=0, prompt_tokens=12),
        Refused(member=1, attempt=0, kind=FailureKind.EMPTY_PROMPT, message="an empty prompt"),
        Busy(member=1, attempt=2),
        ModelMetadata(query=3, metadata={"general.name": "Tiny", "tokenizer.chat_template": "ü" * 3_000_000}),
        ModelMetadata(query=3, metadata=None),
        ModelMetadata(query=3, metadata={}),
        ChatTemplateOverride(query=1, content="{{ x }}"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_from_an_agent_come_back_as_they_went(message: MessageFromAgent) -> None:
    assert wire.decode_from_agent(wire.encode_from_agent(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        SetState(revision=7, state=DEFAULT_DESIRED_STATE.for_agents()),
        Generate(member=1, attempt=0, request_id="r", raw_prompt="Grüße 🫠", max_tokens=5, seed=2**63 - 1),
        Generate(member=1, attempt=0, request_id="r", raw_prompt="", max_tokens=5, seed=0, traceparent="00-1-2-01"),
        Generate(
            member=1,
            attempt=0,
            request_id="r",
            prompt_token_ids=struct.pack("<3i", 1, 2, 3),
            max_tokens=5,
            seed=1,
            constraint=ConstraintText(kind="gbnf", text='root ::= "x"', root="root"),
            prefix_hashes=[1, 2**63 - 1],
        ),
        Generate(member=1, attempt=0, request_id="r", raw_prompt="x" * 8_000_000, max_tokens=5, seed=0),
        Generate(
            member=1,
            attempt=0,
            request_id="r",
            raw_prompt="x",
            max_tokens=5,
            seed=0,
            constraint=ConstraintText(kind="regex", text="🫠" * (MAX_CONSTRAINT_BYTES // 4)),
        ),
        Generate(
            member=1,
            attempt=0,
            request_id="r",
            raw_prompt="x",
            max_tokens=5,
            seed=2**64 - 1,
            sampling=SamplingOptions(temperature=1, top_k=-1, top_p=1.0, logit_bias={0: -100.0, 262_143: 2.5}),
            stop=StopOptions(strings=["###", "é"], token_ids=[2], regexes=[r"\d+"], min_tokens=3, ignores_end=True),
            logprobs=LogprobOptions(top_count=20, token_ids=[1, 2], prompt_start=0, with_text=True),
            echo=True,
            adapter="tuned",
            parses_special=False,
        ),
        Cancel(member=1, attempt=0),
        GetModelMetadata(query=9),
        GetChatTemplateOverride(query=9),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_to_an_agent_come_back_as_they_went(message: MessageToAgent) -> None:
    assert wire.decode_to_agent(wire.encode_to_agent(message)) == message


def test_a_constraint_is_bounded_by_its_bytes() -> None:
    with pytest.raises(ValueError, match="at most 1048576 bytes"):
        ConstraintText(kind="regex", text="é" * (MAX_CONSTRAINT_BYTES // 2 + 1))


def test_greetings_come_back_as_they_went() -> None:
    welcome = Welcome(balancer_id="b", heartbeat_interval_ms=5000, balancer_addresses=["127.0.0.1:8060"])
    assert wire.decode_hello(wire.encode_hello(HELLO)) == HELLO
    assert wire.decode_welcome(wire.encode_welcome(welcome)) == welcome


@pytest.mark.parametrize(("theirs", "who"), [(0, "upgrade the peer"), (99, "upgrade this side")])
def test_another_protocol_version_is_named_with_what_to_upgrade(theirs: int, who: str) -> None:
    body = {"protocol": theirs, "software": "9.9.9", "body": {"fields": "of another age"}, "new": 1}
    for decode in (wire.decode_hello, wire.decode_welcome):
        with pytest.raises(ProtocolVersionMismatch, match=who) as caught:
            decode(wire._frame(wire._FIRST, body))
        assert (caught.value.ours, caught.value.theirs) == (PROTOCOL_VERSION, theirs)
        assert "9.9.9" in str(caught.value)


def test_a_refusal_of_the_same_version_is_an_error_not_a_welcome() -> None:
    with pytest.raises(WireError):
        wire.decode_welcome(wire.encode_version_refusal())


def test_unknown_fields_are_refused() -> None:
    body = Accepted(member=1, attempt=0, prompt_tokens=1).model_dump() | {"extra": 1}
    with pytest.raises(WireError, match="Accepted is not valid at 'extra'"):
        wire.decode_from_agent(wire._frame(0x22, body))


def test_no_value_is_coerced() -> None:
    for prompt_tokens in (True, 1.0, "1", -1, 2**64 - 1, None):
        frame = wire._frame(0x22, {"member": 1, "attempt": 0, "prompt_tokens": prompt_tokens})
        with pytest.raises(WireError):
            wire.decode_from_agent(frame)


def planted(structure: Any) -> bytes:
    return wire._frame(wire._TOKENS, structure)


GOOD_ITEM = [1, 0, 0, [5], "a", 0]
GOOD_END = [1, 0, "stop", [1, 0, 1, 0, 0, 0], None, None, None, None]


@pytest.mark.parametrize(
    "structure",
    [
        None,
        [],
        [[]],
        [[], [], []],
        {},
        [[[1, 0, 0, [5], "a"]], []],
        [[[1, 0, 0, [5], b"a", 0]], []],
        [[[1, 0, 0, "5", "a", 0]], []],
        [[[1, 0, 0, [True], "a", 0]], []],
        [[[1, 0, 0, [-5], "a", 0]], []],
        [[[1, 0, 0, [5.0], "a", 0]], []],
        [[[1, 0, 0, [5], "a", 4]], []],
        [[[1, 0, 0, [5], "a", -1]], []],
        [[[True, 0, 0, [5], "a", 0]], []],
        [[], [[1, 0, None, [1, 0, 1, 0, 0, 0], None, None, None, None]]],
        [[], [[1, 0, "stop", [1, 0, 1, 0, 0, 0], "internal", "both", None, None]]],
        [[], [[1, 0, "nonsense", [1, 0, 1, 0, 0, 0], None, None, None, None]]],
        [[], [[1, 0, "stop", [1, 0, 1, 0, 0], None, None, None, None]]],
        [[], [[1, 0, None, [1, 0, 1, 0, 0, 0], "internal", 5, None, None]]],
        [[[1, 0, 0, [5], "a", 0, "lp"]], []],
        [[[1, 0, 0, [5], "a", 0, b"x" * (256 * 1024 + 1)]], []],
        [[[1, 0, 0, [5], "a", 0, b"x", 0]], []],
        [[], [[1, 0, "stop", [1, 0, 1, 0, 0, 0], None, None, None]]],
        [[], [[1, 0, "stop", [1, 0, 1, 0, 0, 0], None, None, None, True]]],
        [[], [[1, 0, "stop", [1, 0, 1, 0, 0, 0], None, None, None, -1]]],
        [[], [[1, 0, "stop", [1, 0, 1, 0, 0, 0], None, None, None, "x" * 4097]]],
        [[], [[1, 0, ["stop"], [1, 0, 1, 0, 0, 0], None, None, None, None]]],
    ],
)
def test_a_token_frame_of_the_wrong_layout_is_refused(structure: Any) -> None:
    wire.decode_from_agent(planted([[GOOD_ITEM], [GOOD_END]]))
    with pytest.raises(WireError):
        wire.decode_from_agent(planted(structure))


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_wire_errors(frame: bytes) -> None:
    for decode in (wire.decode_hello, wire.decode_welcome, wire.decode_to_agent, wire.decode_from_agent):
        with pytest.raises(WireError):
            decode(frame)


@given(st.sampled_from([0x01, 0x02, 0x03, 0x11, 0x12, 0x21, 0x22, 0x23, 0x53, 0x77]), st.binary(max_size=60))
def test_random_structures_raise_nothing_but_wire_errors(tag: int, noise: bytes) -> None:
    frame = struct.pack("<BI", tag, len(noise)) + noise
    for decode in (wire.decode_hello, wire.decode_to_agent, wire.decode_from_agent):
        try:
            decode(frame)
        except WireError:
            pass


def test_a_frame_of_empty_arrays_costs_little_memory() -> None:
    size_bytes = 8 * 1024 * 1024
    hostile = b"\xdc\xff\xff" * 60 + b"\x90" * (size_bytes)
    tracemalloc.start()
    for frame in (
        struct.pack("<BI", 0x22, len(hostile)) + hostile,  # says that the structure is large
        struct.pack("<BI", 0x02, 3) + msgpack.packb([1, True]) + hostile,  # puts it into the blob
    ):
        with pytest.raises(WireError):
            wire.decode_from_agent(frame)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 8 * size_bytes  # as Python objects it would be 75 times the size


def test_our_own_messages_over_the_limit_are_refused_before_they_are_sent() -> None:
    with pytest.raises(WireError) as caught:
        wire.encode_from_agent(ModelMetadata(query=1, metadata={"a": "x" * (wire.MAX_MESSAGE_BYTES + 1)}))
    assert caught.value.close_code == 1009


@pytest.mark.parametrize("field", ["desired_slots_total", "slots_total", "slots_processing"])
def test_slots_are_few_enough_to_be_summed_over_a_fleet(field: str) -> None:
    greeting = wire.encode_hello(HELLO.model_copy(update={"status": STATUS.model_copy(update={field: 2**31})}))
    with pytest.raises(WireError, match=f"status.{field}"):
        wire.decode_hello(greeting)
