"""An agent's figures over two models and a load that failed: in its status, and on a page of its own."""

import logging
import re

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.metrics_service import CannotListen, serving_metrics
from shared.settings_sources import parse_address
from tests.support.agent_statuses import agent_status
from tests.support.linked_agent import PROMPT, B, linked_agent, serving
from tests.support.scripted_balancer import ScriptedBalancer, generate


async def get(address: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}") as answer:
        return answer.status, await answer.text()


async def test_figures_outlive_a_model_and_a_scrape_shows_what_the_status_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with (
        ScriptedBalancer(heartbeat_interval_ms=100) as balancer,
        linked_agent(balancer, metrics_addr="127.0.0.1:0") as agent,
    ):
        connection = await serving(balancer)
        await connection.send(generate(1, PROMPT, 30))
        await connection.wait_end(1)
        agent.runtime.missing.add("/b.gguf")
        await connection.set_state(2, B)
        await connection.wait_status(lambda status: status.figures.model_loads_failed_total == 1)
        agent.runtime.missing.clear()
        await connection.set_state(3, B)
        await connection.wait_status(lambda status: status.applied_revision == 3)
        await connection.send(generate(2, PROMPT, 20))
        await connection.wait_end(2)
        status = await connection.wait_status(lambda status: status.figures.generated_tokens_total == 50)
        figures = status.figures
        assert sum(figures.model_load_seconds.counts) == 2
        assert sum(figures.step_seconds.counts) == sum(figures.batch_tokens.counts) == figures.steps_total
        assert figures.batch_tokens.total == 2 * len(PROMPT) + 29 + 19
        assert figures.started_at_id == connection.hello.agent_id

        where = re.search(r"metrics are served on (\S+)", caplog.text)
        assert where is not None
        assert await get(f"{where[1]}/health") == (200, "OK")
        code, text = await get(f"{where[1]}/metrics")
        assert code == 200
        values = {one.name: one.value for family in text_string_to_metric_families(text) for one in family.samples}
        assert values["steersman_agent_generated_tokens_total"] == 50
        assert values["steersman_agent_model_load_seconds_count"] == 2
        assert (await get(f"{where[1]}/elsewhere"))[0] == 404


async def test_an_address_that_is_taken_is_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving_metrics(parse_address("127.0.0.1:0"), agent_status):
        (address,) = re.findall(r"metrics are served on (\S+)", caplog.text)
        with pytest.raises(CannotListen, match=rf"cannot listen on {address}: .*in use.* --metrics-addr"):
            async with serving_metrics(parse_address(address), agent_status):
                pass
