"""What each format means: texts that it allows and texts that it does not, judged by our own recogniser."""

import pytest

from tests.support.structural_tags import ANY, DIGITS, DOCUMENT, WEATHER, Json, const, judge, sequence, tag, triggered

# Each: a format, texts that it allows, texts that it does not.
WEATHER_CALL = f"<function=weather>{DOCUMENT}</function>"
TIME_CALL = "<function=time>12</function>"
TOOLS = (tag("<function=weather>", WEATHER, "</function>"), tag("<function=time>", DIGITS, "</function>"))
CALLS = triggered(*TOOLS, triggers=["<function="])

MEANINGS: dict[str, tuple[Json, list[str], list[str]]] = {
    "constant": (const("yes"), ["yes"], ["", "ye", "yes "]),
    "any text": (ANY, ["", "x\n<>é😀"], []),
    "any text with excludes": (
        {**ANY, "excludes": ["END", "ab"]},
        ["", "EN", "EEN D", "a b", "a"],
        ["END", "xENDx", "EENDx", "aab"],
    ),
    "any text of few characters": ({**ANY, "max_chars": 2}, ["", "é", "😀\n"], ["abc"]),
    "no characters": ({**ANY, "max_chars": 0}, [""], ["a"]),
    "sequence": (sequence(const("a"), DIGITS, const("b")), ["a1b", "a12b"], ["ab", "a1", "a1bb"]),
    "or": ({"type": "or", "elements": [const("yes"), const("no")]}, ["yes", "no"], ["", "yesno"]),
    "optional": ({"type": "optional", "content": const("x")}, ["", "x"], ["xx"]),
    "plus": ({"type": "plus", "content": const("xy")}, ["xy", "xyxy"], ["", "xyx"]),
    "star": ({"type": "star", "content": const("xy")}, ["", "xyxyxy"], ["x"]),
    "repeat": ({"type": "repeat", "min": 1, "max": 2, "content": const("x")}, ["x", "xx"], ["", "xxx"]),
    "repeat without bound": ({"type": "repeat", "min": 2, "max": -1, "content": const("x")}, ["xx", "xxxx"], ["x"]),
    "tag around free text ends at its first end": (
        tag("<think>", ANY, "</think>"),
        ["<think></think>", "<think>a </thin k</think>", "<think></thin</think>"],
        ["<think>", "<think>a</think>b", "<think></think></think>", "<think></thin"],
    ),
    "tag with several ends": (
        tag("<", ANY, [">", "/>", "END"]),
        ["<>", "</>", "<a/>", "<aEND", "<EN>"],
        ["<a>>", "<aENDEND", "<a"],
    ),
    "tag whose end may be missing": (tag("<", DIGITS, ["", ">"]), ["<1", "<12>"], ["<", "<1>>"]),
    "excludes that are the end": (
        tag("<t>", {**ANY, "excludes": ["</t>"]}, "</t>"),
        ["<t>x</t>", "<t></t>"],
        ["<t>x", "<t></t></t>"],
    ),
    "excludes that are a part of the end": (
        tag("<t>", {**ANY, "excludes": ["<"]}, "</t>"),
        ["<t>x</t>", "<t></t>"],
        ["<t>a<b</t>", "<t><</t>"],
    ),
    "only the nearest tag's ends count": (
        tag("<a>", tag("<b>", ANY, "</b>"), "</a>"),
        ["<a><b>x</a>y</b></a>"],
        ["<a><b>x</b>y</a>", "<a><b>x</a>"],
    ),
    "free text at the end of a tag's sequence": (
        tag("<a>", sequence(const("1"), ANY), "</a>"),
        ["<a>1</a>", "<a>1xyz</a>"],
        ["<a>1</a></a>", "<a>x</a>"],
    ),
    "free text or nothing in a tag": (
        tag("<a>", {"type": "optional", "content": ANY}, "</a>"),
        ["<a></a>", "<a>x</a>"],
        ["<a></a></a>"],
    ),
    "text or a number in a tag": (
        tag("<a>", {"type": "or", "elements": [ANY, DIGITS]}, "</a>"),
        ["<a>12</a>", "<a>x</a>"],
        ["<a>x</a></a>"],
    ),
    "text that ends where the next begins": (
        sequence({**ANY, "excludes": ["Answer: "]}, const("Answer: "), DIGITS),
        ["Answer: 4", "I think. Answer: 4"],
        ["Answer: ", "Answer: Answer: 4", "4"],
    ),
    "triggered tags": (
        CALLS,
        [
            "",
            "no call at all",
            "an unfinished <function",
            f"I look: {WEATHER_CALL}",
            WEATHER_CALL + TIME_CALL,
            f"a{TIME_CALL}b{WEATHER_CALL}c<functio",
            "<function<function=time>1</function>",
        ],
        ["<function=", "<function=other>1</function>", "a<function=time>1", TIME_CALL + "<function=x"],
    ),
    "triggered tags, at least one": (
        {**CALLS, "at_least_one": True},
        [TIME_CALL, f"{TIME_CALL} and {WEATHER_CALL}.", TIME_CALL + "<functio"],
        ["", "text", f"text {TIME_CALL}", TIME_CALL + "<function="],
    ),
    "triggered tags, stopping after the first": (
        {**CALLS, "stop_after_first": True},
        ["", "text", TIME_CALL, f"text {WEATHER_CALL}"],
        [TIME_CALL + ".", TIME_CALL + TIME_CALL],
    ),
    "exactly one tag": (
        {**CALLS, "at_least_one": True, "stop_after_first": True},
        [TIME_CALL, WEATHER_CALL],
        ["", "text", f"text {TIME_CALL}", TIME_CALL + "."],
    ),
    "triggered tags with excludes": (
        {**CALLS, "excludes": ["sorry", "</function>"]},
        ["sorr", TIME_CALL, f"so {TIME_CALL} so"],
        ["I am sorry", f"{TIME_CALL}sorry", TIME_CALL + "</function>"],
    ),
    "the excluded part of a trigger is excluded in the text": (
        {**CALLS, "excludes": ["<"]},
        ["text", f"text{TIME_CALL}text"],
        ["a < b", "<functio"],
    ),
    "triggered tags in a tag": (
        tag("<response>", CALLS, "</response>"),
        ["<response></response>", f"<response>a{TIME_CALL}b</response>", "<response><function</response>"],
        ["<response>", f"<response>{TIME_CALL}", "<response></response>x", "<response><function=</response>"],
    ),
    "one triggered tag at most in a tag": (
        tag("[", {**CALLS, "stop_after_first": True}, "]"),
        ["[]", "[a]", f"[a{TIME_CALL}]"],
        [f"[{TIME_CALL}a]", f"[{TIME_CALL}{TIME_CALL}]", "[a]]"],
    ),
    "exactly one triggered tag in a tag": (
        tag("[", {**CALLS, "at_least_one": True, "stop_after_first": True}, "]"),
        [f"[{TIME_CALL}]"],
        ["[]", f"[a{TIME_CALL}]", TIME_CALL],
    ),
    "several triggers": (
        triggered(tag("<a>", DIGITS, "</a>"), tag("[b]", DIGITS, ""), triggers=["<a", "[b"]),
        ["", "<[", "<a>1</a>[b]2 text", "[b]7<a>1</a>"],
        ["<a", "[b", "[b]", "<a>1[b]2"],
    ),
    "tags with a separator": (
        {"type": "tags_with_separator", "tags": list(TOOLS), "separator": ", "},
        ["", TIME_CALL, f"{TIME_CALL}, {WEATHER_CALL}, {TIME_CALL}"],
        [f"{TIME_CALL},", f"{TIME_CALL}{TIME_CALL}", "text", f"{TIME_CALL}, "],
    ),
    "tags with a separator, at least one": (
        {"type": "tags_with_separator", "tags": list(TOOLS), "separator": "", "at_least_one": True},
        [TIME_CALL, TIME_CALL + WEATHER_CALL],
        [""],
    ),
    "tags with a separator, one at most": (
        {"type": "tags_with_separator", "tags": list(TOOLS), "separator": ",", "stop_after_first": True},
        ["", TIME_CALL],
        [f"{TIME_CALL},{TIME_CALL}"],
    ),
    "dispatch": (
        {"type": "dispatch", "rules": [["<n>", DIGITS], ["<y>", const("yes")]]},
        ["", "text <", "<n>12 text <y>yes", "<y>yes<n>1"],
        ["<n>", "<y>no", "<n>x"],
    ),
    "dispatch without a loop": (
        {"type": "dispatch", "rules": [["<n>", const("1")]], "loop": False},
        ["", "text", "text<n>1"],
        ["<n>1 ", "<n>1<n>1"],
    ),
    "dispatch in a tag, with the end among the excludes": (
        tag("<r>", {"type": "dispatch", "rules": [["<n>", DIGITS]], "excludes": ["</r>"]}, "</r>"),
        ["<r></r>", "<r>a<n>1b</r>"],
        ["<r>a", "<r></r></r>", "<r><n></r>"],
    ),
    "a grammar with its own names": (
        sequence(
            {"type": "grammar", "grammar": 'root ::= "<" x\nx ::= "y" | root'},
            {"type": "grammar", "grammar": 'root ::= "<" x\nx ::= "y" | root'},
        ),
        ["<y<y", "<<<y<y"],
        ["<y", "y"],
    ),
    "reasoning, then text with calls": (
        sequence(tag("<think>", ANY, "</think>"), CALLS),
        ["<think>hm</think>", f"<think>hm</think>So: {TIME_CALL}"],
        ["hm", f"<think>{TIME_CALL}"],
    ),
    "the style qwen_xml": (
        {
            **WEATHER,
            "style": "qwen_xml",
            "json_schema": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "where"},
                    "unit": {"enum": ["C", "F"]},
                    "days": {"type": "integer"},
                },
                "required": ["city"],
            },
        },
        [
            '<parameter=city>"Oslo" < N</parameter>',
            "<parameter=city></parameter><parameter=unit>C</parameter>",
            f"<parameter=city>x</parameter><parameter=days>{DOCUMENT}</parameter>",
        ],
        ["", "<parameter=unit>C</parameter>", "<parameter=city>x</parameter><parameter=unit>K</parameter>"],
    ),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_a_format_allows_what_it_says_and_nothing_else(name: str) -> None:
    form, allowed, refused = MEANINGS[name]
    recogniser = judge(form)
    assert [text for text in allowed if not recogniser.accepts(text)] == []
    assert [text for text in refused if recogniser.accepts(text)] == []
