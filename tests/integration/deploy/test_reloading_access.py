"""What an agent shows at its next dial after a reload."""

import functools
from pathlib import Path

import pytest

from agent.cli import _read_access_again
from agent.dialler import BalancerAccess
from agent.settings import AgentSettings
from shared.service_link import Supervision
from tests.support.conditions import wait_until
from tests.support.linked_agent import linked_agent
from tests.support.scripted_balancer import ScriptedBalancer


def settings(token_file: Path) -> AgentSettings:
    return AgentSettings.model_validate(
        {"management_addr": ["127.0.0.1:1"], "slots": 1, "agent_token_file": token_file}
    )


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("first\n")
    return file


async def test_a_token_is_read_again_and_one_that_is_refused_changes_nothing(
    token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    access = BalancerAccess("first")
    token_file.write_text("second\n")
    await _read_access_again(settings(token_file), access)
    assert access.token == "second"
    token_file.write_text("two words\n")
    await _read_access_again(settings(token_file), access)
    assert access.token == "second"
    assert "stay what they were: --agent-token-file" in caplog.text
    assert "two words" not in caplog.text


async def test_the_new_token_is_shown_at_the_next_dial_and_the_link_that_is_up_stays(token_file: Path) -> None:
    access = BalancerAccess("first")
    read_again = functools.partial(_read_access_again, settings(token_file), access)
    supervision = Supervision(reload_steps=(read_again,))
    async with ScriptedBalancer() as balancer, linked_agent(balancer, access=access, supervision=supervision):
        first = await balancer.wait_connection(1)
        token_file.write_text("second\n")
        supervision.reload_asked.set()
        await wait_until(lambda: access.token == "second")
        assert not first.is_over
        await first.socket.close(code=1001)
        second = await balancer.wait_connection(2)
    assert (first.authorization, second.authorization) == ("Bearer first", "Bearer second")
