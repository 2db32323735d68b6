"""Models split over several files, `NAME-00001-of-00003.gguf` and so on: are all parts there?"""

import os
import re

from agent.model_files.errors import ModelFileError, ModelFileMalformed, ModelFileMissing
from agent.model_files.header import GgufHeader, read_header

MAX_PARTS = 256
_PART_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf\Z", re.DOTALL)


def check_parts(header: GgufHeader) -> tuple[str, ...]:
    """Paths of all files of the model, in order; only `header.path` when it is not split.

    Raises ModelFileMissing that names an absent part, another `ModelFileError` for a broken one, and
    ModelFileMalformed when the file is not the first part: llama.cpp starts with that one only.
    """
    if header.split_count == 1:
        return (header.path,)
    folder, file_name = os.path.split(header.path)
    matched = _PART_NAME.fullmatch(file_name)
    if not 1 < header.split_count <= MAX_PARTS:
        raise ModelFileMalformed(header.path, f"claims {header.split_count} parts; {MAX_PARTS} are possible")
    if matched is None or int(matched["count"]) != header.split_count:
        raise ModelFileMalformed(
            header.path,
            f"is part of a model in {header.split_count} files; its name must end in "
            f"-00001-of-{header.split_count:05}.gguf",
        )
    if header.split_index != 0 or int(matched["number"]) != 1:
        raise ModelFileMalformed(header.path, "is a later part of a split model; name its first part instead")
    paths = tuple(
        os.path.join(folder, f"{matched['stem']}-{number:05}-of-{header.split_count:05}.gguf")
        for number in range(1, header.split_count + 1)
    )
    for index, path in enumerate(paths[1:], start=1):
        _check_part(header, path, index)
    return paths


def _check_part(first: GgufHeader, path: str, index: int) -> None:
    part = f"part {index + 1} of {first.split_count}"
    try:
        header = read_header(path)
    except ModelFileMissing as error:
        raise ModelFileMissing(first.path, f"{part} is not beside it: {os.path.basename(path)}") from error
    except ModelFileError as error:
        raise type(error)(first.path, f"{part} ({os.path.basename(path)}): {error.sentence}") from error
    if (header.split_index, header.split_count) != (index, first.split_count):
        raise ModelFileMalformed(first.path, f"{os.path.basename(path)} is not {part}")
