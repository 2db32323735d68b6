"""Structural tags over a real vocabulary: whatever tokens are chosen among those allowed, the output is as asked.

The judges below read the text on their own: they know nothing of our grammars.
"""

import json
import re
from collections.abc import Callable, Iterator
from random import Random

import pytest

from agent.constraint.compiler import ConstraintCompiler
from agent.core.backend import ConstraintMatcher
from agent.llama_constraints import open_constraint_vocabulary
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText
from tests.support import budgets
from tests.support.structural_tag_walk import Walk
from tests.support.structural_tags import ANY, Json, const, sequence, tag, triggered, whole
from tests.support.tokenizer_forms import OpenVocabulary, demo_vocabulary

# llguidance's adapter asks llama.cpp by an older name of a function.
pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated:DeprecationWarning"),
]

WALKS = 5 if budgets.current().form == "short" else 40
ENOUGH_TOKENS = 40
MOST_TOKENS = 400

CITY: Json = {
    "type": "json_schema",
    "json_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 6},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
}
CALLS = triggered(
    tag("<function=weather>", CITY, "</function>"),
    tag("<function=time>", {"type": "regex", "pattern": "[0-9]{1,3}"}, "</function>"),
    triggers=["<function="],
)
HINTS = ["<function=", "<function=weather>", "<function=time>12</function>", "<func", "</function>", "x", '"', "sorry"]


@pytest.fixture(scope="module")
def opened() -> OpenVocabulary:
    return demo_vocabulary()


@pytest.fixture(scope="module")
def compiler(opened: OpenVocabulary) -> Iterator[ConstraintCompiler]:
    compiler = ConstraintCompiler(open_constraint_vocabulary(opened.vocabulary))
    yield compiler
    compiler.close()


def compiled(compiler: ConstraintCompiler, document: Json) -> ConstraintMatcher | Failure:
    return compiler.compile(ConstraintText(kind="structural_tag", text=json.dumps(document)))


# Judges


def end_of_call(text: str, place: int) -> int | None:
    """Where the call that begins at `place` ends."""
    if text.startswith("<function=time>", place):
        found = re.compile(r"<function=time>[0-9]{1,3}</function>").match(text, place)
        return None if found is None else found.end()
    if not text.startswith("<function=weather>", place):
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text, place + len("<function=weather>"))
    except json.JSONDecodeError:
        return None
    is_right = (
        isinstance(value, dict)
        and {"city"} <= set(value) <= {"city", "days"}
        and isinstance(value["city"], str)
        and len(value["city"]) <= 6
        and (value.get("days", 1)) in range(1, 10)
    )
    return end + len("</function>") if is_right and text.startswith("</function>", end) else None


def calls_in(text: str, forbidden: tuple[str, ...] = ()) -> int | None:
    """How many calls stand in the free text; None: one of them is wrong, or the text is."""
    place, calls = 0, 0
    while True:
        found = text.find("<function=", place)
        free = text[place:] if found < 0 else text[place:found]
        if any(word in free for word in forbidden):
            return None
        if found < 0:
            return calls
        end = end_of_call(text, found)
        if end is None:
            return None
        place, calls = end, calls + 1


def is_free_with_calls(text: str) -> bool:
    return calls_in(text) is not None


def begins_with_call(text: str) -> bool:
    return text.startswith("<function=") and is_free_with_calls(text)


def stops_after_call(text: str) -> bool:
    calls = calls_in(text)
    return calls == 0 or (calls == 1 and text.endswith("</function>"))


def is_one_call(text: str) -> bool:
    return text.startswith("<function=") and end_of_call(text, 0) == len(text)


def has_no_excluded(text: str) -> bool:
    return calls_in(text, ("sorry", "x")) is not None


def is_thought_and_answer(text: str) -> bool:
    if not text.startswith("<think>"):
        return False
    _, end, rest = text[len("<think>") :].partition("</think>")
    if not end:
        return False
    return bool(re.fullmatch(r"(yes|no)(, (yes|no)){0,2}", rest)) or (
        rest.startswith("!") and is_free_with_calls(rest[1:])
    )


def is_separated(text: str) -> bool:
    place = 0
    while text:
        end = end_of_call(text, place)
        if end is None:
            return False
        if end == len(text):
            return True
        if text[end] != ";":
            return False
        place = end + 1
    return True


def is_dispatched(text: str) -> bool:
    return bool(re.fullmatch(r"<r>((?!</r>|<n>).|<n>[0-9]{1,3};)*</r>", text, re.DOTALL))


YES_NO: Json = {"type": "or", "elements": [const("yes"), const("no")]}
SHAPES: dict[str, tuple[Json, Callable[[str], bool]]] = {
    "free text with calls": (whole(CALLS), is_free_with_calls),
    "at least one call": (whole({**CALLS, "at_least_one": True}), begins_with_call),
    "one call at most": (whole({**CALLS, "stop_after_first": True}), stops_after_call),
    "exactly one call": (whole({**CALLS, "stop_after_first": True, "at_least_one": True}), is_one_call),
    "excludes": (whole({**CALLS, "excludes": ["sorry", "x"]}), has_no_excluded),
    "nested": (
        whole(
            sequence(
                tag("<think>", ANY, "</think>"),
                {
                    "type": "or",
                    "elements": [
                        sequence(
                            YES_NO, {"type": "repeat", "min": 0, "max": 2, "content": sequence(const(", "), YES_NO)}
                        ),
                        sequence(const("!"), CALLS),
                    ],
                },
            )
        ),
        is_thought_and_answer,
    ),
    "separated": (
        whole({"type": "tags_with_separator", "tags": CALLS["tags"], "separator": ";"}),
        is_separated,
    ),
    "dispatch in a tag": (
        whole(
            tag("<r>", {"type": "dispatch", "rules": [["<n>", {"type": "regex", "pattern": "[0-9]{1,3};"}]]}, "</r>")
        ),
        is_dispatched,
    ),
    "the older form": (
        {
            "type": "structural_tag",
            "structures": [{"begin": "<function=weather>", "schema": CITY["json_schema"], "end": "</function>"}],
            "triggers": ["<function="],
            "at_least_one": True,
        },
        begins_with_call,
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_whatever_is_chosen_the_output_is_as_asked(
    name: str, compiler: ConstraintCompiler, opened: OpenVocabulary
) -> None:
    document, is_right = SHAPES[name]
    hints = [*HINTS, "</think>", "yes", "<n>", "<n>1;", "</r>", ";"]
    ended = []
    for number in range(WALKS):
        matcher = compiled(compiler, document)
        assert not isinstance(matcher, Failure), matcher
        walk = Walk(matcher, opened, Random(f"{name} {number}"), hints).run(ENOUGH_TOKENS, MOST_TOKENS)
        if walk.has_ended:
            ended.append(walk.text)
    assert [text for text in ended if not is_right(text)] == []
    assert len(ended) >= WALKS * 2 // 3
    assert any("</" in text for text in ended)


def test_free_text_may_stop_in_the_middle_of_a_trigger_but_not_behind_it(
    compiler: ConstraintCompiler, opened: OpenVocabulary
) -> None:
    for text, may_end in (("I use <function", True), ("I use <function=", False), ("I use <function=t", False)):
        matcher = compiled(compiler, whole(CALLS))
        assert not isinstance(matcher, Failure), matcher
        walk = Walk(matcher, opened, Random(1), ())
        for token in opened.vocabulary.tokenize(text, add_special=False, parse_special=False):
            walk.write(token)
        assert walk.may_end is may_end


def token(spelling: str) -> Json:
    return {"type": "token", "token": spelling}


def token_tag(content: Json) -> Json:
    return {"type": "tag", "begin": token("<|im_start|>"), "content": content, "end": token("<repo_name>")}


NUMBER: Json = {"type": "regex", "pattern": "[0-9]{1,3}"}
TOKEN_SHAPES: dict[str, tuple[Json, str]] = {
    "a tag of tokens around a regex": (token_tag(NUMBER), r"B[0-9]{1,3}E"),
    "a tag of tokens around text": (token_tag(ANY), r"B[^BE]*E"),
    "a tag of tokens around any tokens": (token_tag({"type": "any_tokens", "max_tokens": 5}), r"B[^E]*E"),
    "token triggered tags": (
        {"type": "token_triggered_tags", "trigger_tokens": ["<|im_start|>"], "tags": [token_tag(NUMBER)]},
        r"([^B]|B[0-9]{1,3}E)*",
    ),
    "token triggered tags, exactly one": (
        {
            "type": "token_triggered_tags",
            "trigger_tokens": ["<|im_start|>"],
            "tags": [token_tag(NUMBER)],
            "at_least_one": True,
            "stop_after_first": True,
        },
        r"B[0-9]{1,3}E",
    ),
    "token dispatch": (
        {
            "type": "token_dispatch",
            "rules": [["<|im_start|>", sequence(NUMBER, token("<repo_name>"))]],
            "exclude_tokens": ["<repo_name>"],
        },
        r"([^BE]|B[0-9]{1,3}E)*",
    ),
}


@pytest.mark.parametrize("name", TOKEN_SHAPES)
def test_token_formats_are_told_by_tokens(name: str, compiler: ConstraintCompiler, opened: OpenVocabulary) -> None:
    """Judged on the tokens: B and E stand for the two control tokens, every other token is written in small letters."""
    form, pattern = TOKEN_SHAPES[name]
    begin, end = (
        opened.vocabulary.tokenize(s, add_special=False, parse_special=True) for s in ("<|im_start|>", "<repo_name>")
    )
    ended = 0
    for number in range(WALKS):
        matcher = compiled(compiler, whole(form))
        assert not isinstance(matcher, Failure), matcher
        hints = ["<|im_start|>", "<repo_name>", "12", "<|im_start|>7<repo_name>"]
        walk = Walk(matcher, opened, Random(f"{name} {number}"), hints).run(20, 100)
        ended += walk.has_ended
        pieces = {begin[0]: "B", end[0]: "E"}
        shown = "".join(
            pieces.get(t) or opened.vocabulary.token_piece(t).decode("utf-8", "replace").lower() for t in walk.tokens
        )
        if walk.has_ended:
            assert re.fullmatch(pattern, shown, re.DOTALL), shown
    assert ended >= WALKS // 2


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (whole(token("<|im_end|>")), "#/format: "),
        (whole(token("hello")), "#/format: "),
        (whole(tag("<a", ANY, ["</t", "</t>"])), "#/format"),
        ({"type": "structural_tag", "format": {"type": "poem"}}, "#/format/type: "),
    ],
)
def test_a_refusal_names_the_place(document: Json, sentence: str, compiler: ConstraintCompiler) -> None:
    failure = compiled(compiler, document)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.parameter) == (FailureKind.GRAMMAR_INITIALIZATION, "grammar")
    assert sentence in failure.message
