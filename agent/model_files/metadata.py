"""The key-value section of a GGUF file: scalars and strings are kept, arrays become one line each."""

import struct
from dataclasses import dataclass, field

from agent.model_files.byte_window import ByteWindow
from agent.model_files.errors import ModelFileMalformed

MAX_KEYS = 4096
MAX_KEY_BYTES = 65_535  # gguf.md
MAX_KEPT_STRING_BYTES = 1 << 20
MAX_KEPT_BYTES = 2 << 20
"""Keys and strings that one header may hold in memory; longer strings are named by their length."""
MAX_ARRAY_STRINGS = 1_000_000
"""Over all arrays of a file: each string is walked. The largest vocabularies hold 650,000 with merges."""

STRING_TYPE = 8
ARRAY_TYPE = 9
_SCALARS: dict[int, tuple[struct.Struct, str]] = {
    0: (struct.Struct("<B"), "u8"),
    1: (struct.Struct("<b"), "i8"),
    2: (struct.Struct("<H"), "u16"),
    3: (struct.Struct("<h"), "i16"),
    4: (struct.Struct("<I"), "u32"),
    5: (struct.Struct("<i"), "i32"),
    6: (struct.Struct("<f"), "f32"),
    7: (struct.Struct("<?"), "bool"),
    10: (struct.Struct("<Q"), "u64"),
    11: (struct.Struct("<q"), "i64"),
    12: (struct.Struct("<d"), "f64"),
}
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

Scalar = str | int | float | bool


@dataclass(slots=True)
class Metadata:
    """What was read: `values` by key; the type word of each ("u32", "string", "array"); lengths of arrays."""

    values: dict[str, Scalar] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    array_lengths: dict[str, int] = field(default_factory=dict)

    def text(self, key: str) -> str | None:
        """The string at `key`; None when it is absent or not a string."""
        return str(self.values[key]) if self.types.get(key) == "string" else None

    def whole_number(self, key: str) -> int | None:
        """The integer at `key`; None when it is absent or of another type."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


class MetadataReader:
    """Reads the pairs of one file within the bounds above. Raises only `ModelFileError`s."""

    def __init__(self, path: str, window: ByteWindow) -> None:
        self._path = path
        self._window = window
        self._kept_bytes = 0
        self._walked_strings = 0

    def read(self, pair_count: int) -> Metadata:
        """The next `pair_count` pairs at the cursor."""
        metadata = Metadata()
        for _ in range(pair_count):
            key = self._read_key()
            if key in metadata.values:
                raise ModelFileMalformed(self._path, f"the metadata key {key[:100]!r} occurs twice")
            kind = self._read_u32()
            if kind == ARRAY_TYPE:
                length, metadata.values[key] = self._skip_array(key)
                metadata.array_lengths[key] = length
                metadata.types[key] = "array"
            elif kind == STRING_TYPE:
                metadata.values[key], metadata.types[key] = self._read_string()
            else:
                layout, metadata.types[key] = self._scalar(key, kind)
                (metadata.values[key],) = self._window.unpack(layout)
        return metadata

    def _read_u32(self) -> int:
        return int(_U32.unpack(self._window.take(_U32.size))[0])

    def _read_u64(self) -> int:
        return int(_U64.unpack(self._window.take(_U64.size))[0])

    def _read_key(self) -> str:
        length = self._read_u64()
        if not 0 < length <= MAX_KEY_BYTES:
            raise ModelFileMalformed(self._path, f"a metadata key is {length} bytes long")
        return self._keep(length)

    def _read_string(self) -> tuple[str, str]:
        """The string and its type word. One that is too long to keep is skipped and named by its length."""
        length = self._read_u64()
        if length > MAX_KEPT_STRING_BYTES:
            self._window.skip(length)
            return f"[{length} bytes of text]", "long string"
        return self._keep(length), "string"

    def _keep(self, length: int) -> str:
        self._kept_bytes += length
        if self._kept_bytes > MAX_KEPT_BYTES:
            raise ModelFileMalformed(self._path, "its metadata holds more text than that of any real model")
        return self._window.take(length).decode("utf-8", errors="replace")

    def _scalar(self, key: str, kind: int) -> tuple[struct.Struct, str]:
        found = _SCALARS.get(kind)
        if found is None:
            raise ModelFileMalformed(self._path, f"the metadata key {key[:100]!r} has the unknown type {kind}")
        return found

    def _skip_array(self, key: str) -> tuple[int, str]:
        """Length and summary of the array at the cursor. Arrays of arrays are refused, as llama.cpp does."""
        kind = self._read_u32()
        length = self._read_u64()
        if kind != STRING_TYPE:
            layout, word = self._scalar(key, kind)
            self._window.skip(length * layout.size)
            return length, f"[{length} {word}]"
        self._walked_strings += length
        if self._walked_strings > MAX_ARRAY_STRINGS:
            raise ModelFileMalformed(self._path, f"the metadata key {key[:100]!r} lists {length} strings: too many")
        self._window.skip_strings(length)
        return length, f"[{length} strings]"
