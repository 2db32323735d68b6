"""A name that is nearly right leads to the right one, and no guess is better than a wrong one."""

import pytest

from shared.nearest_word import nearest_word

KNOWN = ["slots", "management-addr", "metrics-addr", "log-level", "log-format"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("slotz", "slots"),
        ("slo", "slots"),
        ("managment-addr", "management-addr"),
        ("management", "management-addr"),
        ("log", None),  # two begin so
        ("sl", None),
        ("", None),
        ("nonsense", None),
        ("slots" * 1000, None),
    ],
)
def test_the_name_that_was_meant(word: str, meant: str | None) -> None:
    assert nearest_word(word, KNOWN) == meant
