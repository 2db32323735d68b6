"""`python -m docs.capacity` counts as the agent does."""

import re
import shlex
from pathlib import Path

import pytest

from agent.llama import context_parameters, memory_need
from docs import capacity
from tests.support.gguf_bytes import PAIRS, GgufBytes, u32_pair
from tests.support.tiny_model import demo_model_path

PAGE = Path(capacity.__file__).with_suffix(".md")

HEADS = (
    u32_pair("llama.embedding_length", 256),
    u32_pair("llama.attention.head_count", 4),
    u32_pair("llama.attention.head_count_kv", 2),
)


def written(folder: Path, *pairs: bytes) -> str:
    path = folder / "model.gguf"
    path.write_bytes(GgufBytes(pairs=(*PAIRS, *pairs)).to_bytes())
    return str(path)


def test_the_constants_are_those_of_the_agent() -> None:
    assert capacity.SPARE_OUTPUT_ROWS == context_parameters.SPARE_SEQUENCE_IDS
    assert capacity.CELL_PADDING_TOKENS == memory_need._CELL_PADDING
    assert capacity.CACHE_BITS == context_parameters.CACHE_BITS


def test_a_model_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = capacity.main(["memory", written(tmp_path, *HEADS), "--slots", "2", "--context-size", "1000"])
    assert status == 0
    told = capsys.readouterr().out
    # 2 layers x 2 heads x (64 + 64) numbers of 2 bytes
    assert "cache: 1,024 tokens of 1.0 KiB" in told
    assert "output rows: 6 of the vocabulary's 3 x 4 bytes" in told
    assert "One request may use 1,000 tokens; 2 at once have 512 each" in told


def test_widths_of_their_own_and_fewer_bits_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    widths = (u32_pair("llama.attention.key_length", 128), u32_pair("llama.attention.value_length", 32))
    bits = ("--k-cache-dtype", "Q8_0", "--v-cache-dtype", "F32")
    assert capacity.main(["memory", written(tmp_path, *HEADS, *widths), *bits]) == 0
    assert f"tokens of {2 * 2 * (128 * 8.5 + 32 * 32) / 8 / 1024:.1f} KiB" in capsys.readouterr().out


def test_a_model_that_does_not_tell_is_an_error_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert capacity.main(["memory", written(tmp_path)]) == 1
    assert "does not tell llama.attention.head_count" in capsys.readouterr().err
    assert capacity.main(["memory", str(tmp_path / "none.gguf")]) == 1


def test_little_s_law(capsys: pytest.CaptureFixture[str]) -> None:
    load = capacity.Load(
        requests_per_second=2.0,
        prompt_tokens=300,
        shared_tokens=100,
        answer_tokens=50,
        prompt_rate=100.0,
        stream_rate=25.0,
        slots_per_agent=3,
    )
    told = capacity.slots_report(load).splitlines()  # 200 / 100 + 50 / 25 = 4 seconds
    assert [line.split()[-1] for line in told[:2]] == ["4.0", "8"]
    assert "3 of 3 slots, and one to spare: 4" in told[2]
    assert " 850 at least" in told[3]  # 100 + 3 * (200 + 50)
    assert " 20, if" in told[4]


@pytest.mark.model
def test_the_page_shows_what_the_commands_print(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.findall(
        r"^```sh\n(python -m docs.capacity .*?)```\n\n```\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(found) == 2
    for command, shown in found:
        words = shlex.split(command.replace("\\\n", " "))[3:]
        assert capacity.main([str(demo_model_path()) if ".gguf" in word else word for word in words]) == 0
        assert capsys.readouterr().out == shown
