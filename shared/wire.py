"""The only codec between balancer and agents.

A frame is one websocket message: tag (1 byte), length of the structure (4 bytes, little-endian), the
structure (msgpack), and a blob (raw bytes to the end; empty for most messages). The structure is small and
bounded; whatever may be large, a prompt or a model's metadata, travels as the blob. That bounds what a hostile
peer can make msgpack build: 4 MB of empty arrays would become 300 MB of Python objects.

The first message of either side also carries the protocol version; its outer layout never changes, so that
peers of different versions can name both.
"""

import struct
from typing import Any, Final, TypeVar

import msgpack
from pydantic import BaseModel, ValidationError

from shared.messages_from_agent import (
    Accepted,
    Busy,
    ChatTemplateOverride,
    Hello,
    MessageFromAgent,
    ModelMetadata,
    Refused,
    StatusUpdate,
    TokenFrame,
)
from shared.messages_to_agent import (
    Cancel,
    Generate,
    GetChatTemplateOverride,
    GetModelMetadata,
    MessageToAgent,
    SetState,
    Welcome,
)
from shared.version import PROTOCOL_VERSION, software_version
from shared.wire_errors import (
    CLOSE_POLICY,
    CLOSE_PROTOCOL,
    CLOSE_TOO_BIG,
    ProtocolVersionMismatch,
    WireError,
)
from shared.wire_metadata import pack_metadata, unpack_metadata
from shared.wire_tokens import pack_token_frame, unpack_token_frame

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
MAX_STRUCTURE_BYTES: Final = 2 * 1024 * 1024
MAX_ARRAY_ITEMS: Final = 65_536
MAX_MAP_ITEMS: Final = 4_096

Model = TypeVar("Model", bound=BaseModel)

_HEADER = struct.Struct("<BI")
_FIRST = 0x53
_TOKENS = 0x01
_MODEL_METADATA = 0x02
_GENERATE = 0x03

_TO_AGENT: Final[dict[int, type[Any]]] = {
    0x11: SetState,
    0x12: Cancel,
    0x13: GetModelMetadata,
    0x14: GetChatTemplateOverride,
}
_FROM_AGENT: Final[dict[int, type[Any]]] = {
    0x21: StatusUpdate,
    0x22: Accepted,
    0x23: Refused,
    0x24: Busy,
    0x25: ChatTemplateOverride,
}
_TAGS: Final = {kind: tag for table in (_TO_AGENT, _FROM_AGENT) for tag, kind in table.items()}


# --- First messages -------------------------------------------------------------------------------


def encode_hello(hello: Hello) -> bytes:
    """The first message of an agent."""
    return _encode_first(hello.model_dump())


def decode_hello(frame: bytes) -> Hello:
    """Raises ProtocolVersionMismatch or WireError."""
    return _validate(Hello, _decode_first(frame))


def greeting_software_version(frame: bytes) -> str:
    """Which release sent a first message that was decoded before; shown to operators, never compared."""
    _, structure, _ = _split(frame)
    return str(_unpack(structure).get("software"))[:64]


def encode_welcome(welcome: Welcome) -> bytes:
    """The first message of a balancer."""
    return _encode_first(welcome.model_dump())


def encode_version_refusal() -> bytes:
    """What a balancer sends instead of a welcome, so that the agent learns its version; then it closes."""
    return _encode_first(None)


def decode_welcome(frame: bytes) -> Welcome:
    """Raises ProtocolVersionMismatch or WireError."""
    return _validate(Welcome, _decode_first(frame))


def _encode_first(body: dict[str, Any] | None) -> bytes:
    return _frame(_FIRST, {"protocol": PROTOCOL_VERSION, "software": software_version(), "body": body})


def _decode_first(frame: bytes) -> Any:
    tag, structure, _ = _split(frame)
    if tag != _FIRST:
        raise WireError("the first message is not a greeting", CLOSE_PROTOCOL)
    greeting = _unpack(structure)
    if not isinstance(greeting, dict) or type(greeting.get("protocol")) is not int:
        raise WireError("the greeting names no protocol version", CLOSE_PROTOCOL)
    if greeting["protocol"] != PROTOCOL_VERSION:
        raise ProtocolVersionMismatch(
            ours=PROTOCOL_VERSION,
            our_software_version=software_version(),
            theirs=greeting["protocol"],
            their_software_version=str(greeting.get("software"))[:64],
        )
    return greeting.get("body")


# --- Everything after -----------------------------------------------------------------------------


def encode_to_agent(message: MessageToAgent) -> bytes:
    """One frame for an agent."""
    if isinstance(message, Generate):
        blob = message.prompt_token_ids
        if message.raw_prompt is not None:
            blob = message.raw_prompt.encode()
        body = message.model_dump(exclude={"raw_prompt", "prompt_token_ids"})
        body["is_text"] = message.raw_prompt is not None
        return _frame(_GENERATE, body, blob or b"")
    return _frame(_TAGS[type(message)], message.model_dump())


def decode_to_agent(frame: bytes) -> MessageToAgent:
    """Raises WireError for anything that is not a whole, known, valid message."""
    tag, structure, blob = _split(frame)
    if tag == _GENERATE:
        return _decode_generate(_unpack(structure), blob)
    message: MessageToAgent = _validate(_known(_TO_AGENT, tag), _unpack(structure))
    return message


def encode_from_agent(message: MessageFromAgent) -> bytes:
    """One frame for a balancer."""
    if isinstance(message, TokenFrame):
        return _frame(_TOKENS, pack_token_frame(message))
    if isinstance(message, ModelMetadata):
        present = message.metadata is not None
        return _frame(_MODEL_METADATA, [message.query, present], pack_metadata(message.metadata or {}))
    return _frame(_TAGS[type(message)], message.model_dump())


def decode_from_agent(frame: bytes) -> MessageFromAgent:
    """Raises WireError for anything that is not a whole, known, valid message."""
    tag, structure, blob = _split(frame)
    if tag == _TOKENS:
        return unpack_token_frame(_unpack(structure))
    if tag == _MODEL_METADATA:
        return _decode_metadata(_unpack(structure), blob)
    message: MessageFromAgent = _validate(_known(_FROM_AGENT, tag), _unpack(structure))
    return message


def _decode_generate(body: Any, blob: bytes) -> Generate:
    if not isinstance(body, dict) or type(body.get("is_text")) is not bool:
        raise WireError("Generate does not say what its prompt is", CLOSE_POLICY)
    if not body.pop("is_text"):
        return _validate(Generate, body | {"prompt_token_ids": blob})
    try:
        return _validate(Generate, body | {"raw_prompt": blob.decode()})
    except UnicodeDecodeError:
        raise WireError("Generate's prompt is not UTF-8", CLOSE_POLICY) from None


def _decode_metadata(body: Any, blob: bytes) -> ModelMetadata:
    if not isinstance(body, list) or len(body) != 2 or type(body[1]) is not bool:
        raise WireError("ModelMetadata has the wrong layout", CLOSE_POLICY)
    metadata = unpack_metadata(blob) if body[1] else None
    return _validate(ModelMetadata, {"query": body[0], "metadata": metadata})


# --- Bytes ----------------------------------------------------------------------------------------


def _frame(tag: int, structure: Any, blob: bytes = b"") -> bytes:
    packed: bytes = msgpack.packb(structure)
    frame = _HEADER.pack(tag, len(packed)) + packed + blob
    if len(packed) > MAX_STRUCTURE_BYTES or len(frame) > MAX_MESSAGE_BYTES:
        raise WireError(f"a message of {len(frame)} bytes is over the limit of the link", CLOSE_TOO_BIG)
    return frame


def _split(frame: bytes) -> tuple[int, memoryview, bytes]:
    if len(frame) < _HEADER.size:
        raise WireError("a frame without a header", CLOSE_PROTOCOL)
    tag, length = _HEADER.unpack_from(frame)
    end = _HEADER.size + length
    if length > MAX_STRUCTURE_BYTES or len(frame) > MAX_MESSAGE_BYTES:
        raise WireError("a frame over the limit of the link", CLOSE_TOO_BIG)
    if end > len(frame):
        raise WireError("a frame that ends early", CLOSE_PROTOCOL)
    return tag, memoryview(frame)[_HEADER.size : end], frame[end:]


def _unpack(structure: memoryview) -> Any:
    try:
        return msgpack.unpackb(
            structure,
            max_array_len=MAX_ARRAY_ITEMS,
            max_map_len=MAX_MAP_ITEMS,
            max_ext_len=0,
            ext_hook=_refuse_extension,
        )
    except (ValueError, msgpack.UnpackException) as error:
        raise WireError(f"a frame that is not msgpack ({type(error).__name__})", CLOSE_PROTOCOL) from None


def _refuse_extension(code: int, data: bytes) -> Any:
    raise ValueError("extension types are not part of this protocol")


def _known(table: dict[int, type[Any]], tag: int) -> type[Any]:
    if tag not in table:
        raise WireError(f"a message of unknown kind {tag:#x}", CLOSE_PROTOCOL)
    return table[tag]


def _validate(model: type[Model], body: Any) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_url=False, include_input=False)[0]["loc"])
        raise WireError(f"{model.__name__} is not valid at '{place[:200]}'", CLOSE_POLICY) from None
