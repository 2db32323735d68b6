"""Where tensors lie in a GGUF file: the rules of gguf.cpp, checked against the size of the file."""

import struct

from agent.model_files.byte_window import ByteWindow
from agent.model_files.errors import ModelFileMalformed, ModelFileTruncated

MAX_TENSORS = 30_000
MAX_TENSOR_NAME_BYTES = 63  # GGML_MAX_NAME is 64 with its terminator
MAX_DIMENSIONS = 4  # GGML_MAX_DIMS
MAX_ELEMENTS = 2**63 - 1

BLOCK_SIZES: dict[int, tuple[int, int]] = {
    0: (1, 4),  # F32
    1: (1, 2),  # F16
    2: (32, 18),  # Q4_0
    3: (32, 20),  # Q4_1
    6: (32, 22),  # Q5_0
    7: (32, 24),  # Q5_1
    8: (32, 34),  # Q8_0
    9: (32, 40),  # Q8_1
    10: (256, 84),  # Q2_K
    11: (256, 110),  # Q3_K
    12: (256, 144),  # Q4_K
    13: (256, 176),  # Q5_K
    14: (256, 210),  # Q6_K
    15: (256, 292),  # Q8_K
    16: (256, 66),  # IQ2_XXS
    17: (256, 74),  # IQ2_XS
    18: (256, 98),  # IQ3_XXS
    19: (256, 50),  # IQ1_S
    20: (32, 18),  # IQ4_NL
    21: (256, 110),  # IQ3_S
    22: (256, 82),  # IQ2_S
    23: (256, 136),  # IQ4_XS
    24: (1, 1),  # I8
    25: (1, 2),  # I16
    26: (1, 4),  # I32
    27: (1, 8),  # I64
    28: (1, 8),  # F64
    29: (256, 56),  # IQ1_M
    30: (1, 2),  # BF16
    34: (256, 54),  # TQ1_0
    35: (256, 66),  # TQ2_0
    39: (32, 17),  # MXFP4
    40: (64, 36),  # NVFP4
    41: (128, 18),  # Q1_0
}
"""ggml type -> (elements, bytes) of a block. A type that is not here may be newer than this table: its size
is not checked, llama.cpp decides."""

_LENGTH = struct.Struct("<Q")
_DIMENSION_COUNT = struct.Struct("<I")
_DIMENSIONS = [struct.Struct(f"<{count}Q") for count in range(MAX_DIMENSIONS + 1)]
_TYPE_OFFSET = struct.Struct("<IQ")


def check_tensors(path: str, window: ByteWindow, count: int, alignment: int) -> None:
    """Read `count` tensor records at the cursor and see that all their data lies inside the file.

    Raises ModelFileMalformed or ModelFileTruncated.
    """
    names: set[bytes] = set()
    data_bytes = 0
    for index in range(count):
        name = _read_name(path, window, index)
        if name in names:
            raise ModelFileMalformed(path, f"tensor {index} has the name of an earlier one")
        names.add(name)
        end = _read_data_end(path, window, index, alignment)
        data_bytes = max(data_bytes, end)
    if count == 0:
        return
    data_start = -(-window.position // alignment) * alignment
    if data_start + data_bytes > window.file_bytes:
        raise ModelFileTruncated(
            path,
            f"the file has {window.file_bytes} bytes, its tensors need {data_start + data_bytes}",
        )


def _read_name(path: str, window: ByteWindow, index: int) -> bytes:
    (length,) = _LENGTH.unpack(window.take(_LENGTH.size))
    if length > MAX_TENSOR_NAME_BYTES:
        raise ModelFileMalformed(path, f"the name of tensor {index} is longer than {MAX_TENSOR_NAME_BYTES} bytes")
    return window.take(length)


def _read_data_end(path: str, window: ByteWindow, index: int, alignment: int) -> int:
    """The end of the tensor's data, in bytes from the start of the data section."""
    (dimension_count,) = _DIMENSION_COUNT.unpack(window.take(_DIMENSION_COUNT.size))
    if dimension_count > MAX_DIMENSIONS:
        raise ModelFileMalformed(path, f"tensor {index} has {dimension_count} dimensions, over {MAX_DIMENSIONS}")
    layout = _DIMENSIONS[dimension_count]
    dimensions: tuple[int, ...] = layout.unpack(window.take(layout.size))
    kind, offset = _TYPE_OFFSET.unpack(window.take(_TYPE_OFFSET.size))
    elements = 1
    for dimension in dimensions:
        elements *= dimension
    if not 0 < elements <= MAX_ELEMENTS:
        raise ModelFileMalformed(path, f"tensor {index} has an impossible shape")
    if offset % alignment:
        raise ModelFileMalformed(path, f"the data of tensor {index} does not begin at a multiple of {alignment} bytes")
    block_elements, block_bytes = BLOCK_SIZES.get(kind, (1, 0))
    row = dimensions[0] if dimensions else 1
    if row % block_elements:
        raise ModelFileMalformed(path, f"the rows of tensor {index} are no multiple of its block size")
    return int(offset) + elements // block_elements * block_bytes
