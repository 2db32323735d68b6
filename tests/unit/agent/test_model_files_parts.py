"""Split models: all parts have to be beside the first one, and to be what their names say."""

import struct
from pathlib import Path

import pytest

from agent.model_files.errors import ModelFileMalformed, ModelFileMissing, ModelFileTruncated
from agent.model_files.header import read_header
from agent.model_files.parts import check_parts
from tests.support import gguf_bytes as build
from tests.support.gguf_bytes import PAIRS, GgufBytes


def u16_pair(key: str, value: int) -> bytes:
    return build.text(key) + struct.pack("<IH", 2, value)


def write_parts(folder: Path, count: int) -> list[Path]:
    paths = [folder / f"model-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]
    for index, path in enumerate(paths):
        own = PAIRS if index == 0 else ()
        pairs = (*own, u16_pair("split.no", index), u16_pair("split.count", count))
        path.write_bytes(GgufBytes(pairs=pairs).to_bytes())
    return paths


def test_a_model_in_one_file_is_its_only_part(tmp_path: Path) -> None:
    path = tmp_path / "whole.gguf"
    path.write_bytes(GgufBytes().to_bytes())

    assert check_parts(read_header(path)) == (str(path),)


def test_all_parts_are_named_in_order(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, 3)

    assert check_parts(read_header(paths[0])) == tuple(map(str, paths))


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, 3)
    paths[1].unlink()

    with pytest.raises(ModelFileMissing, match=r"part 2 of 3 .*model-00002-of-00003\.gguf"):
        check_parts(read_header(paths[0]))


def test_a_truncated_part_makes_the_model_truncated(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, 2)
    paths[1].write_bytes(paths[1].read_bytes()[:-1])

    with pytest.raises(ModelFileTruncated, match="part 2 of 2"):
        check_parts(read_header(paths[0]))


def test_a_part_of_another_model_is_refused(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, 3)
    paths[2].write_bytes(paths[1].read_bytes())

    with pytest.raises(ModelFileMalformed, match="is not part 3 of 3"):
        check_parts(read_header(paths[0]))


def test_a_later_part_cannot_be_named_as_the_model(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, 2)

    with pytest.raises(ModelFileMalformed, match="name its first part"):
        check_parts(read_header(paths[1]))


def test_a_renamed_first_part_is_refused_with_the_name_it_needs(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, 2)
    renamed = paths[0].rename(tmp_path / "model.gguf")

    with pytest.raises(ModelFileMalformed, match="-00001-of-00002"):
        check_parts(read_header(renamed))


def test_sixty_thousand_parts_are_not_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "model-00001-of-60000.gguf"
    path.write_bytes(GgufBytes(pairs=(*PAIRS, u16_pair("split.count", 60_000))).to_bytes())

    with pytest.raises(ModelFileMalformed, match="60000 parts"):
        check_parts(read_header(path))
