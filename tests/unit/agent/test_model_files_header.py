"""The header reader: what it reads, and which `ModelFileError` every other file is."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from agent.model_files.errors import (
    ModelFileError,
    ModelFileMalformed,
    ModelFileMissing,
    ModelFileNotGguf,
    ModelFileTruncated,
    ModelFileUnreadable,
)
from agent.model_files.header import GgufHeader, read_header
from agent.model_files.metadata import MAX_KEPT_STRING_BYTES
from agent.model_files.tensor_layout import BLOCK_SIZES
from tests.support import gguf_bytes as build
from tests.support.gguf_bytes import PAIRS, TENSORS, GgufBytes

HUGE = 2**63


@pytest.fixture
def read(tmp_path: Path) -> Callable[[GgufBytes | bytes], GgufHeader]:
    def read_file(content: GgufBytes | bytes) -> GgufHeader:
        path = tmp_path / "model.gguf"
        path.write_bytes(content.to_bytes() if isinstance(content, GgufBytes) else content)
        return read_header(path)

    return read_file


Read = Callable[[GgufBytes | bytes], GgufHeader]


def test_it_reads_what_an_agent_tells_about_a_model(read: Read) -> None:
    header = read(GgufBytes())

    assert (header.version, header.architecture, header.name) == (3, "llama", "a name")
    assert (header.context_length, header.vocabulary_size, header.file_type) == (1024, 3, 0)
    assert header.chat_template == "{{ messages }}"
    assert header.tensor_count == 2
    assert header.file_bytes == len(GgufBytes().to_bytes())
    assert header.metadata["tokenizer.ggml.tokens"] == "[3 strings]"
    assert header.metadata["tokenizer.ggml.scores"] == "[3 f32]"


def test_metadata_as_text_is_sorted_and_spells_booleans_as_json_does(read: Read) -> None:
    flag = build.text("a.flag") + struct.pack("<I?", build.BOOL, True)

    as_text = read(GgufBytes(pairs=(*PAIRS, flag))).metadata_as_text()

    assert list(as_text) == sorted(as_text)
    assert as_text["a.flag"] == "true"
    assert as_text["llama.context_length"] == "1024"


def test_text_that_is_not_utf8_is_shown_with_replacement_characters(read: Read) -> None:
    header = read(GgufBytes(pairs=(*PAIRS, build.string_pair("general.author", b"caf\xe9"))))

    assert header.metadata["general.author"] == "caf�"


def test_a_string_too_long_to_keep_is_named_by_its_length(read: Read) -> None:
    long = build.string_pair("a.long", b"x" * (MAX_KEPT_STRING_BYTES + 1))

    assert read(GgufBytes(pairs=(*PAIRS, long))).metadata["a.long"] == f"[{MAX_KEPT_STRING_BYTES + 1} bytes of text]"


def test_a_tensor_of_a_type_newer_than_our_table_is_left_to_llama_cpp(read: Read) -> None:
    assert read(GgufBytes(tensors=(build.tensor("new", (32,), kind=99),))).tensor_count == 1


def test_the_table_of_block_sizes_is_that_of_the_gguf_package() -> None:
    known = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}

    assert {kind: known[kind] for kind in BLOCK_SIZES if kind in known} == {
        kind: sizes for kind, sizes in BLOCK_SIZES.items() if kind in known
    }
    assert len(set(BLOCK_SIZES) & set(known)) > 25


FOREIGN = {
    "an empty file": b"",
    "a text file": b"Dear reader,\n" * 10,
    "three bytes": b"GGU",
    "another magic": GgufBytes(magic=b"GGML"),
    "version 1": GgufBytes(version=1),
    "a version to come": GgufBytes(version=4),
    "version 0": GgufBytes(version=0),
    "the other byte order": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_foreign_file_is_not_gguf(read: Read, content: GgufBytes | bytes) -> None:
    with pytest.raises(ModelFileNotGguf):
        read(content)


TRUNCATED = {
    "only the magic": b"GGUF",
    "an array of 2**63 numbers": GgufBytes(pairs=(*PAIRS, build.array_pair("a", build.F32, HUGE, b""))),
    "a string longer than the file": GgufBytes(
        pairs=(*PAIRS, build.text("a") + struct.pack("<IQ", build.STRING, 2**62))
    ),
    "a string in an array longer than the file": GgufBytes(
        pairs=(*PAIRS, build.array_pair("a", build.STRING, 2, struct.pack("<QQ", 2**64 - 1, 0)))
    ),
    "a thousand strings that are not there": GgufBytes(
        pairs=(*PAIRS, build.array_pair("a", build.STRING, 1000, b"")), tensors=(), data=b""
    ),
    "tensor data beyond the end": GgufBytes(tensors=(build.tensor("a", (32, 2), offset=1 << 40),)),
    "a tensor larger than the file": GgufBytes(tensors=(build.tensor("a", (1 << 40, 2)),)),
    "the last byte of the data missing": GgufBytes().to_bytes()[:-1],
}


@pytest.mark.parametrize("content", TRUNCATED.values(), ids=TRUNCATED.keys())
def test_a_file_that_ends_too_early_is_truncated(read: Read, content: GgufBytes | bytes) -> None:
    with pytest.raises(ModelFileTruncated):
        read(content)


def test_a_valid_file_cut_anywhere_is_never_accepted(read: Read) -> None:
    content = GgufBytes().to_bytes()
    for length in (*range(0, len(content), 7), len(content) - 1):
        with pytest.raises((ModelFileTruncated, ModelFileNotGguf)):
            read(content[:length])


def pairs_with(**values: int) -> GgufBytes:
    """The valid file with some llama.* numbers replaced or added."""
    replaced = tuple(build.text(f"llama.{key}") for key in values)
    kept = [pair for pair in PAIRS if not pair.startswith(replaced)]
    return GgufBytes(pairs=[*kept, *(build.u32_pair(f"llama.{key}", value) for key, value in values.items())])


def epsilon_pair(value: float) -> bytes:
    return build.text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", build.F32, value)


MALFORMED = {
    "more tensors than any model": GgufBytes(tensor_count=HUGE),
    "more keys than any model": GgufBytes(pair_count=HUGE),
    "more strings than any model": GgufBytes(pairs=(*PAIRS, build.array_pair("a", build.STRING, HUGE, b""))),
    "an array of arrays": GgufBytes(pairs=(*PAIRS, build.array_pair("a", build.ARRAY, 1, bytes(12)))),
    "an unknown value type": GgufBytes(pairs=(*PAIRS, build.text("a") + struct.pack("<I", 13))),
    "more pairs than there are": GgufBytes(pair_count=len(PAIRS) + 1, tensors=(), data=b""),
    "an empty key": GgufBytes(pairs=(*PAIRS, build.u32_pair("", 1))),
    "a key longer than any": GgufBytes(pairs=(*PAIRS, build.u32_pair("k" * 65_536, 1))),
    "a key twice": GgufBytes(pairs=(*PAIRS, build.u32_pair("llama.block_count", 2))),
    "a tensor name twice": GgufBytes(tensors=(TENSORS[0], TENSORS[0])),
    "a tensor name longer than any": GgufBytes(tensors=(build.tensor("n" * 64, (32,)),)),
    "five dimensions": GgufBytes(tensors=(build.tensor("a", (1, 1, 1, 1, 1)),)),
    "a dimension of zero": GgufBytes(tensors=(build.tensor("a", (32, 0)),)),
    "dimensions that overflow": GgufBytes(tensors=(build.tensor("a", (2**32, 2**32)),)),
    "a negative dimension": GgufBytes(tensors=(build.tensor("a", (2**64 - 1,)),)),
    "rows that are no whole blocks": GgufBytes(tensors=(build.tensor("a", (31,), kind=2),)),
    "data off its alignment": GgufBytes(tensors=(build.tensor("a", (32,), offset=1),)),
    "an alignment of zero": GgufBytes(pairs=(*PAIRS, build.u32_pair("general.alignment", 0))),
    "an alignment of three": GgufBytes(pairs=(*PAIRS, build.u32_pair("general.alignment", 3))),
    "an alignment that is text": GgufBytes(pairs=(*PAIRS, build.string_pair("general.alignment", "32"))),
    "no architecture": GgufBytes(pairs=PAIRS[1:]),
    "more text than any model": GgufBytes(
        pairs=(*PAIRS, *(build.string_pair(f"a.{index}", b"x" * 900_000) for index in range(3)))
    ),
    # What follows makes llama.cpp abort the process.
    "no layers": pairs_with(block_count=0),
    "a million layers": pairs_with(block_count=1_000_000),
    "more experts used than there are": pairs_with(expert_count=4, expert_used_count=5),
    "experts of which none is used": pairs_with(expert_count=4),
    "used experts that are not there": pairs_with(expert_used_count=1),
    "more experts than llama.cpp has room for": pairs_with(expert_count=5000, expert_used_count=1),
    "a norm below zero": GgufBytes(pairs=(*PAIRS, epsilon_pair(-1e-5))),
    "a norm that is no number": GgufBytes(pairs=(*PAIRS, epsilon_pair(float("nan")))),
    "an unknown position scaling": GgufBytes(pairs=(*PAIRS, build.string_pair("llama.rope.scaling.type", "wild"))),
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_file_that_contradicts_itself_is_malformed(read: Read, content: GgufBytes) -> None:
    with pytest.raises(ModelFileMalformed):
        read(content)


def test_possible_experts_are_let_through(read: Read) -> None:
    assert read(pairs_with(expert_count=8, expert_used_count=2)).architecture == "llama"


def test_an_ordinary_norm_is_let_through(read: Read) -> None:
    assert read(GgufBytes(pairs=(*PAIRS, epsilon_pair(1e-5)))).architecture == "llama"


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelFileMissing, match="no such file"):
        read_header(tmp_path / "absent.gguf")
    (tmp_path / "file").touch()
    with pytest.raises(ModelFileMissing):
        read_header(tmp_path / "file" / "below.gguf")


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "a\0b", "\ud800", "x" * 5000])
def test_what_is_not_a_regular_file_is_unreadable(path: str) -> None:
    with pytest.raises(ModelFileUnreadable):
        read_header(path)


def test_a_directory_a_pipe_and_a_loop_of_links_are_unreadable_and_do_not_block(tmp_path: Path) -> None:
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    for path in (tmp_path, pipe, loop):
        with pytest.raises(ModelFileUnreadable):
            read_header(path)


def test_a_file_without_permission_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may read everything, so the refusal of the system is played.
    path = tmp_path / "model.gguf"
    path.write_bytes(GgufBytes().to_bytes())

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ModelFileUnreadable, match="no permission"):
        read_header(path)


def test_a_file_that_shrinks_while_it_is_read_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(GgufBytes().to_bytes())
    monkeypatch.setattr(os, "pread", lambda *_: b"GGUF")
    with pytest.raises(ModelFileTruncated, match="shorter"):
        read_header(path)


def test_every_descriptor_is_closed_again(read: Read) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for content in (GgufBytes(), GgufBytes(version=9), b"", GgufBytes(tensor_count=HUGE)):
        try:
            read(content)
        except ModelFileError:
            pass

    assert len(os.listdir("/proc/self/fd")) == before
