"""Raw prompts through a balancer process, a link and an agent process: text, ends and counts of the answers."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.llama.vocabulary import LlamaVocabulary, load_vocabulary
from tests.support.native_stream import RAW_PROMPT_PATH
from tests.support.raw_http import RawConnection
from tests.support.running_fleet import COUNTING, RunningFleet
from tests.support.shared_fleet import AGENT_NAME
from tests.support.tiny_model import demo_model_path, tiny_model_path

CONTEXT_TOKENS = 2048
TINY_CONTEXT_TOKENS = 64
EMOJI = "😀"
CHAT = "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"

PAGE = Path(__file__).resolve().parents[2] / "docs" / "raw-prompt.md"

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def fleet(shared_fleet: RunningFleet) -> RunningFleet:
    return shared_fleet


@pytest.fixture
def demo(fleet: RunningFleet) -> RunningFleet:
    """Serves SmolLM2; nothing is loaded again when it does already."""
    fleet.serve(demo_model_path(), context_size=CONTEXT_TOKENS)
    return fleet


@pytest.fixture
def tiny(fleet: RunningFleet) -> RunningFleet:
    """Serves the tiny model, whose metadata asks for BOS, with room for 64 tokens."""
    fleet.serve(tiny_model_path(fleet.folder), context_size=TINY_CONTEXT_TOKENS, n_batch=2048)
    return fleet


@pytest.fixture(scope="module")
def vocabulary() -> Iterator[LlamaVocabulary]:
    with load_vocabulary(str(demo_model_path())) as lease:
        yield lease.vocabulary


def count(vocabulary: LlamaVocabulary, text: str) -> int:
    return len(vocabulary.tokenize(text, add_special=False, parse_special=True))


async def test_each_token_is_a_line_of_its_own_and_is_counted_once(
    demo: RunningFleet, vocabulary: LlamaVocabulary
) -> None:
    async with demo.client(COUNTING, 12) as client:
        head = await client.read_head()
        answer = await client.read_all()
    assert head.headers["content-type"] == "application/json"
    assert len(answer.pieces) == 12
    assert answer.text.startswith(" 9, 10, 11,")
    assert answer.usage == {
        "prompt_tokens": count(vocabulary, COUNTING),
        "cached_prompt_tokens": 0,
        "input_image_tokens": 0,
        "input_audio_tokens": 0,
        "content_tokens": 12,
        "reasoning_tokens": 0,
        "tool_call_tokens": 0,
        "undeterminable_tokens": 0,
    }
    assert (answer.finish_reason, answer.generated_by) == ("length", {AGENT_NAME})
    assert {line["Response"]["request_id"] for line in answer.lines} == {answer.request_id}


async def test_the_same_prompt_again_gives_the_same_text_and_is_not_read_again(demo: RunningFleet) -> None:
    prompt = "Colours: red, green, red, green, red, green, red, green,"
    first, second = await demo.ask(prompt, 16), await demo.ask(prompt, 16)
    assert second.text == first.text
    assert first.usage["cached_prompt_tokens"] == 0
    assert second.usage["cached_prompt_tokens"] == second.usage["prompt_tokens"] - 1
    # A continuation of both reuses the answer too: all but the last token, which was never evaluated.
    longer = await demo.ask(prompt + first.text + " and", 4)
    assert longer.usage["cached_prompt_tokens"] >= first.usage["prompt_tokens"] + 16 - 2


@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_max_tokens_is_a_hard_limit(demo: RunningFleet, limit: int) -> None:
    answer = await demo.ask("one two three four five six", limit)
    assert len(answer.pieces) == limit
    assert (answer.usage["content_tokens"], answer.finish_reason) == (limit, "length")


async def test_the_models_own_end_is_stop_and_is_neither_shown_nor_counted(
    demo: RunningFleet, vocabulary: LlamaVocabulary
) -> None:
    prompt = CHAT.format(question="Say only the word hello.")
    answer = await demo.ask(prompt, 200)
    assert answer.finish_reason == "stop"
    assert "<|" not in answer.text
    assert answer.usage["content_tokens"] == len(answer.pieces) < 200
    assert answer.usage["prompt_tokens"] == count(vocabulary, prompt)
    assert count(vocabulary, "<|im_start|>") == 1, "or special tokens of raw prompts were not parsed"
    # With exactly as many tokens as the answer has, the end is never sampled.
    cut = await demo.ask(prompt, len(answer.pieces))
    assert (cut.text, cut.finish_reason) == (answer.text, "length")


async def test_an_answer_that_is_left_counts_what_was_sampled_and_nothing_else(demo: RunningFleet) -> None:
    async with demo.client("Dragons " * 6 + "are", 900) as client:  # begins like no other prompt here
        request_id = (await client.read_head()).headers["x-request-id"]
        await client.read_pieces(5)
    await demo.wait_idle()
    story = (await demo.story(request_id))[-1]
    found = re.search(
        r"finish_reason=cancelled, usage=Usage\(prompt_tokens=(\d+), cached_prompt_tokens=(\d+), content_tokens=(\d+)",
        story,
    )
    assert found is not None, story
    prompt_tokens, cached, content_tokens = map(int, found.groups())
    assert cached == 0
    assert 5 <= content_tokens < 900
    # The last token was sampled and not evaluated; the others are in the prefix cache now. What earlier answers left
    # there went to host memory when this one began.
    agent = demo.agent()
    assert agent["used_cells"] == agent["cached_tokens"] == prompt_tokens + content_tokens - 1


# Limits that say nothing, or too much (case C20)


async def test_no_tokens_wanted_is_done_at_once(demo: RunningFleet) -> None:
    answer = await demo.ask("x", 0)
    assert answer.lines == [answer.lines[-1]]
    assert (answer.usage["content_tokens"], answer.finish_reason) == (0, "length")


@pytest.mark.parametrize("limit", [-1, 2**31])
async def test_a_limit_that_is_none_is_refused_by_name(demo: RunningFleet, limit: int) -> None:
    async with RawConnection.to(demo.inference) as connection:
        await connection.post(RAW_PROMPT_PATH, {"raw_prompt": "x", "max_tokens": limit})
        answer = await connection.read_answer()
    assert answer.status == 400
    assert "max_tokens" in answer.text


# Prompts of no tokens and of too many


async def test_an_empty_prompt_is_refused_and_the_next_request_works(demo: RunningFleet) -> None:
    """Case C19, with a model that wants no BOS."""
    refused = await demo.ask("", 4)
    assert refused.error is not None
    assert (len(refused.lines), refused.error[0]) == (1, 400)
    assert (await demo.ask("Hello", 4)).usage["content_tokens"] == 4
    await demo.wait_idle()


async def test_a_model_that_asks_for_no_bos_gets_none(demo: RunningFleet, vocabulary: LlamaVocabulary) -> None:
    answer = await demo.ask("Hello", 1)
    assert answer.usage["prompt_tokens"] == count(vocabulary, "Hello") == 1


# Characters that span tokens (case C14)


async def test_a_line_holds_whole_characters_wherever_the_limit_falls(
    demo: RunningFleet, vocabulary: LlamaVocabulary
) -> None:
    tokens = vocabulary.tokenize(EMOJI, add_special=False, parse_special=False)
    tokens_each = len(tokens)
    assert tokens_each > 2, "this character does not span tokens"
    likely = {"temperature": 0, "logit_bias": {str(token): 20 for token in tokens}}  # no other, on any processor
    whole = await demo.ask(EMOJI * 8, 4 * tokens_each, sampling=likely)
    assert whole.pieces == [EMOJI] * 4
    for limit in range(1, 2 * tokens_each + 1):
        cut = await demo.ask(EMOJI * 8, limit, sampling=likely)
        assert cut.usage["content_tokens"] == limit
        assert cut.pieces == [EMOJI] * (limit // tokens_each), "half a character, or a mark in its place"
        assert cut.finish_reason == "length"


# The tiny model, last, so that each model is loaded once


async def test_a_prompt_that_does_not_fit_is_refused_naming_both_lengths(tiny: RunningFleet) -> None:
    """llama.cpp rounds a context of 64 up to 256; what was asked for counts."""
    refused = await tiny.ask("?" * TINY_CONTEXT_TOKENS, 4)  # and BOS
    assert refused.error is not None
    assert (len(refused.lines), refused.error[0]) == (1, 400)
    assert re.findall(r"\d+", refused.error[1]) == [str(TINY_CONTEXT_TOKENS + 1), str(TINY_CONTEXT_TOKENS)]


async def test_at_the_end_of_the_context_an_answer_ends_with_length(tiny: RunningFleet) -> None:
    answers = [await tiny.ask(word, 500) for word in ("one", "two", "three", "four", "five", "six")]
    totals = [one.usage["prompt_tokens"] + one.usage["content_tokens"] for one in answers]
    assert max(totals) == TINY_CONTEXT_TOKENS, "no answer came to the edge"
    for answer, total in zip(answers, totals, strict=True):
        assert (answer.finish_reason == "length") is (total == TINY_CONTEXT_TOKENS)
    fits = await tiny.ask("?" * (TINY_CONTEXT_TOKENS - 2), 500)  # room for one token
    assert fits.usage["content_tokens"] <= 1


async def test_bos_is_there_once_where_the_model_asks_for_it(tiny: RunningFleet) -> None:
    """Case C33: the tokens of these prompts are BOS and, if any, one per question mark."""
    counts = [(await tiny.ask(prompt, 1)).usage["prompt_tokens"] for prompt in ("??", "<s>??", "<s>", "")]
    assert counts == [3, 3, 1, 1]


async def test_what_the_page_asks_for_has_an_answer(demo: RunningFleet) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    bodies = [json.loads(shlex.split(block)[-1]) for block in blocks]
    assert [body.get("grammar", {}).get("type") for body in bodies] == [None, "json_schema"]
    for body in bodies:
        async with demo.client(body.pop("raw_prompt"), **body) as client:
            answer = await client.read_all()
        assert answer.text.strip(), body
