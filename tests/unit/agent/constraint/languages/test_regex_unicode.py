"""The sets that Unicode names, against Python's own `re` and `unicodedata` on every code point."""

import re
import sys
import unicodedata
from bisect import bisect_right

import pytest

from agent.constraint.languages.code_points import EVERY_CODE_POINT, code_points, complement, is_surrogate, letters
from agent.constraint.languages.regex_unicode import both_cases, category, python_class
from agent.constraint.tree import LAST_CODE_POINT

EVERY_CHARACTER = [chr(code) for code in range(sys.maxunicode + 1) if not is_surrogate(code)]


def members(ranges: tuple[tuple[int, int], ...]) -> set[str]:
    return {chr(code) for low, high in ranges for code in range(low, high + 1)}


@pytest.mark.parametrize("letter", ["d", "w", "s"])
def test_classes_are_those_of_python(letter: str) -> None:
    found = set(re.findall(rf"\{letter}", "".join(EVERY_CHARACTER)))
    assert members(python_class(letter)) == found


def test_categories_are_those_of_unicodedata() -> None:
    names = ("Lu", "Ll", "Lo", "Mn", "Nd", "Sm", "Zs", "Cc", "Cf", "Cn", "Co")
    starts = sorted((low, high, name) for name in names for low, high in category(name) or ())
    for character in EVERY_CHARACTER[:0x3000] + EVERY_CHARACTER[0x3000::97] + EVERY_CHARACTER[-3:]:
        place = bisect_right(starts, (ord(character), LAST_CODE_POINT, "~")) - 1
        found = starts[place][2] if ord(character) <= starts[place][1] else None
        expected = unicodedata.category(character)
        assert found == (expected if expected in names else None)


def test_a_category_of_one_letter_is_all_that_begin_with_it() -> None:
    kinds = [category(name) or () for name in ("Lu", "Ll", "Lt", "Lm", "Lo")]
    assert category("L") == code_points(run for ranges in kinds for run in ranges)


def test_there_is_no_category_of_surrogates_or_of_an_unknown_name() -> None:
    assert category("Cs") is None
    assert category("Xx") is None
    assert category("") is None


def test_letters_of_either_case_are_those_that_python_takes_for_the_same() -> None:
    cased = "".join(c for c in EVERY_CHARACTER if c.lower() != c or c.upper() != c) + "12 一"
    for letter in cased[::80] + "iI\u0131İsS\u017fkK\u212aßẞµμ\u03c3ςΣåÅΐΰﬅ":
        expected = re.findall(re.escape(letter), cased, re.IGNORECASE)
        assert members(both_cases(letters(letter))) == set(expected)


def test_ranges_get_the_letters_of_the_other_case() -> None:
    assert both_cases(letters("abcd")) == code_points([(65, 68), (97, 100)])
    assert both_cases(letters("19")) == letters("19")


def test_code_points_are_joined_and_hold_no_surrogates() -> None:
    assert code_points([(98, 99), (97, 97), (120, 119), (100, 105)]) == ((97, 105),)
    assert code_points([(0xD7FF, 0xE000)]) == ((0xD7FF, 0xD7FF), (0xE000, 0xE000))
    assert code_points([(0xD800, 0xDFFF)]) == ()
    assert complement(()) == EVERY_CODE_POINT
    assert complement(complement(letters("ab"))) == letters("ab")
    assert complement(EVERY_CODE_POINT) == ()
