"""Triggered tags against a reader that scans the text as a client would: earliest trigger, then a tag, then on."""

import itertools
import random
import re
from dataclasses import dataclass, replace

import pytest

from tests.support.structural_tags import Json, judge, tag, triggered


@dataclass(frozen=True, slots=True)
class Tags:
    """Each tag: begin, digits, end. None of the begins is a prefix of another, so that reading needs no choice."""

    triggers: tuple[str, ...]
    tags: tuple[tuple[str, str], ...]
    excludes: tuple[str, ...] = ()
    at_least_one: bool = False
    stop_after_first: bool = False
    end_around: str | None = None

    def format(self) -> Json:
        tags = [tag(begin, {"type": "regex", "pattern": "[0-9]*"}, end) for begin, end in self.tags]
        form = triggered(
            *tags,
            triggers=list(self.triggers),
            excludes=list(self.excludes),
            at_least_one=self.at_least_one,
            stop_after_first=self.stop_after_first,
        )
        return form if self.end_around is None else tag("", form, self.end_around)

    def allows(self, text: str) -> bool:
        place, tags_read = 0, 0
        while True:
            if self.stop_after_first and tags_read:
                return text[place:] == (self.end_around or "")
            must_be_a_tag = self.at_least_one and tags_read == 0
            hit = (place, "") if must_be_a_tag else self._first_hit(text, place)
            if hit is None:
                return self.end_around is None
            if hit[1] == self.end_around:
                return hit[0] + len(hit[1]) == len(text)
            if hit[1] in self.excludes:
                return False
            after = self._tag_end(text, hit[0])
            if after is None:
                return False
            place, tags_read = after, tags_read + 1

    def _first_hit(self, text: str, place: int) -> tuple[int, str] | None:
        """Where the string starts that is complete first; an exclude wins over what ends at the same place."""
        looked_for = [*self.excludes, *self.triggers, *([self.end_around] if self.end_around else [])]
        hits = [(text.find(one, place) + len(one), n, one) for n, one in enumerate(looked_for) if one in text[place:]]
        return None if not hits else (min(hits)[0] - len(min(hits)[2]), min(hits)[2])

    def _tag_end(self, text: str, place: int) -> int | None:
        for begin, end in self.tags:
            found = re.compile(re.escape(begin) + "[0-9]*" + re.escape(end)).match(text, place)
            if found:
                return found.end()
        return None


SCANNED = [
    Tags(("<a",), (("<a>", ";"), ("<ab", "b"))),
    Tags(("aa",), (("aa", "b"),)),
    Tags(("aba",), (("abab", ""), ("abaa", "b"))),
    Tags(("<", "b"), (("<a", ">"), ("b1", "<"))),
    Tags(("<a",), (("<a>", ";"),), excludes=("bb", "1a")),
    Tags(("ab",), (("ab", "a"),), excludes=("aab",)),
    Tags(("<a",), (("<a>", ";"),), end_around="bb"),
    Tags(("ab",), (("ab", ";"),), end_around=";;", excludes=("b>",)),
]


@pytest.mark.parametrize("at_least_one", [False, True])
@pytest.mark.parametrize("stop_after_first", [False, True])
@pytest.mark.parametrize("number", range(len(SCANNED)))
def test_triggered_tags_agree_with_a_reader_that_scans(number: int, at_least_one: bool, stop_after_first: bool) -> None:
    tags = replace(SCANNED[number], at_least_one=at_least_one, stop_after_first=stop_after_first)
    recogniser = judge(tags.format())
    texts = texts_for(tags, random.Random(number))
    verdicts = {text: tags.allows(text) for text in texts}
    assert {text: recogniser.accepts(text) for text in texts} == verdicts
    assert {True, False} <= set(verdicts.values())


def texts_for(tags: Tags, chance: random.Random) -> list[str]:
    """Short texts over the letters that matter, and longer ones out of whole pieces."""
    letters = "".join(dict.fromkeys("".join((*tags.triggers, *tags.excludes, tags.end_around or "", "1;"))))
    short = ["".join(text) for length in range(4) for text in itertools.product(letters, repeat=length)]
    whole = [begin + digits + end for begin, end in tags.tags for digits in ("", "12")]
    pieces = [*whole, *tags.triggers, *tags.excludes, *letters, *([tags.end_around] if tags.end_around else [])]
    long = ["".join(chance.choices(pieces, k=chance.randint(1, 5))) for _ in range(80)]
    ended = [text + (tags.end_around or "") for text in long[:40]]
    return sorted({*chance.sample(short, min(60, len(short))), *long, *ended, *whole})
