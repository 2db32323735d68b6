"""The demo says where it is, when that is not where the pages say."""

import pytest

from agent.demo_processes import sentence_of_ports_in_use

PREFERRED = (8061, 8070, 8060)


def test_the_ports_of_the_pages_need_no_word() -> None:
    assert sentence_of_ports_in_use(PREFERRED, PREFERRED) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((8061, 40000, 8060), "Port 8070 of 127.0.0.1 is in use"),
        ((40000, 8070, 40001), "Ports 8060 and 8061 of 127.0.0.1 are in use"),
        ((40000, 40001, 40002), "Ports 8060, 8061 and 8070 of 127.0.0.1 are in use"),
    ],
)
def test_ports_that_others_have_are_named_in_one_line(found: tuple[int, ...], words: str) -> None:
    sentence = sentence_of_ports_in_use(PREFERRED, found)
    assert sentence is not None
    assert sentence.startswith(words)
    assert "the demo takes others" in sentence
    assert "\n" not in sentence
