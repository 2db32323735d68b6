"""What a request is said to take on the way to an agent is never too little."""

import pytest

from shared.messages_to_agent import ConstraintText
from tests.support.switchboard_driver import request


@pytest.mark.parametrize("prompt", ["", "plain", "größer", "\U0001f600" * 5])
def test_most_bytes_is_an_upper_bound(prompt: str) -> None:
    grammar = ConstraintText(kind="gbnf", text='root ::= "ü"')
    found = request(raw_prompt=prompt, constraint=grammar).most_bytes
    assert found >= len(prompt.encode()) + len(grammar.text.encode())
    assert found <= 4 * (len(prompt) + len(grammar.text))


def test_most_bytes_of_token_ids() -> None:
    assert request(raw_prompt=None, prompt_token_ids=bytes(400)).most_bytes == 400
