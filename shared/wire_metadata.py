"""A model's metadata as one blob: text pairs, read one by one so that a hostile blob builds nothing else."""

from typing import Final

import msgpack

from shared.messages_from_agent import MAX_METADATA_CHARACTERS, MAX_METADATA_ENTRIES
from shared.wire_errors import CLOSE_POLICY, CLOSE_TOO_BIG, WireError

_MAX_BLOB_BYTES: Final = 4 * MAX_METADATA_CHARACTERS


def pack_metadata(metadata: dict[str, str]) -> bytes:
    """Key, value, key, value, ...: msgpack strings without a container."""
    packer = msgpack.Packer()
    return b"".join(packer.pack(text) for pair in metadata.items() for text in pair)


def unpack_metadata(blob: bytes) -> dict[str, str]:
    """Raises WireError when the blob is anything but pairs of text within the limits."""
    if len(blob) > _MAX_BLOB_BYTES:
        raise WireError("the model's metadata is over the limit", CLOSE_TOO_BIG)
    reader = msgpack.Unpacker(max_buffer_size=_MAX_BLOB_BYTES, max_array_len=0, max_map_len=0, max_ext_len=0)
    reader.feed(blob)
    metadata: dict[str, str] = {}
    try:
        for key in reader:
            value = reader.unpack()
            if not isinstance(key, str) or not isinstance(value, str) or len(metadata) >= MAX_METADATA_ENTRIES:
                raise WireError("the model's metadata is not a bounded list of text pairs", CLOSE_POLICY)
            metadata[key] = value
    except (ValueError, msgpack.UnpackException):
        raise WireError("the model's metadata cannot be read", CLOSE_POLICY) from None
    return metadata
