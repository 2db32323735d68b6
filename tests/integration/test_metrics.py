"""A balancer by its own start-up path, a scripted agent, one request: what a scrape and a StatsD server then show."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from balancer.app import Balancer
from balancer.request_record import Endpoint
from shared.settings_sources import Address
from tests.support.agent_figures import figures
from tests.support.conditions import DEADLINE_SECONDS, wait_until
from tests.support.exported import Exported
from tests.support.raw_http import RawConnection
from tests.support.running_balancer import running_balancer
from tests.support.scripted_agent import ScriptedAgent, scripted_agent

HISTOGRAMS = [
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "time_per_output_token_seconds",
    "request_duration_seconds",
]


class Datagrams(asyncio.DatagramProtocol):
    """A StatsD server that keeps all it is sent."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.received.append(data)

    async def wait(self, *lines: bytes) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while self.received[-len(lines) :] != [*lines]:
                await asyncio.sleep(0.005)


@asynccontextmanager
async def statsd_server() -> AsyncIterator[tuple[Datagrams, Address]]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
    try:
        yield server, Address(*transport.get_extra_info("sockname"))
    finally:
        transport.close()


async def scrape(balancer: Balancer) -> Exported:
    async with RawConnection.to(balancer.management_address) as client:
        await client.request("GET", "/metrics")
        return Exported.of((await client.read_answer()).body)


async def answer_one_request(balancer: Balancer, agent: ScriptedAgent) -> None:
    async with RawConnection.to(balancer.inference_address) as client:
        await client.post("/api/v1/continue_from_raw_prompt", {"raw_prompt": "2+2=", "max_tokens": 8})
        work = await agent.wait_work()
        await client.read_head()
        await agent.accept(work)
        for text in ("4", "."):
            await agent.token(work, text)
            await client.read_chunk()
        await agent.end(work)
        async for _ in client.chunks():
            pass


async def test_one_request_is_one_observation_everywhere() -> None:
    async with (
        running_balancer(heartbeat_interval_seconds=0.1, agent_metrics=True) as balancer,
        scripted_agent(f"http://{balancer.management_address}", name="gpu-0", slots=2, figures=figures()) as agent,
    ):
        await answer_one_request(balancer, agent)
        await agent.say_status(2, applied_revision=0, figures=figures(steps=2, step_seconds=(0.25, 0.5)))
        await wait_until(lambda: balancer.switchboard.statistics().counters.states_applied == 1)
        found = await scrape(balancer)
        while found.value("steersman_requests_in_flight", endpoint="raw_prompt"):  # its handler ends after its answer
            found = await scrape(balancer)
        for endpoint in Endpoint:
            for name in HISTOGRAMS:
                counted = found.value(f"steersman_{name}_count", endpoint=endpoint)
                assert counted == (endpoint is Endpoint.RAW_PROMPT), (name, endpoint)
        assert found.value("steersman_queue_wait_seconds_count") == 1
        outcomes = found.by_label("steersman_requests_total")
        assert {key: count for key, count in outcomes.items() if count} == {("raw_prompt", "none", "answered"): 1}
        assert found.value("steersman_generated_tokens_total", endpoint="raw_prompt", kind="content") == 2
        assert found.value("steersman_prompt_tokens_total", endpoint="raw_prompt") == 5
        assert found.value("steersman_fleet_engine_steps_total") == 2
        assert found.value("steersman_agent_engine_step_seconds_sum", agent="gpu-0") == 0.75
        assert found.value("steersman_agents", state="serving") == 1
        assert found.value("steersman_slots", state="free") == 2
        assert found.value("steersman_desired_state_lag_seconds") == 0
        assert found.value("steersman_link_received_bytes_total") > 0
        assert found.value("steersman_link_sent_bytes_total") > 0
        while not found.value("steersman_link_round_trip_seconds_count"):
            found = await scrape(balancer)
        assert found.value("steersman_link_round_trip_seconds_sum") > 0
        agent.vanish()
        await wait_until(lambda: balancer.switchboard.statistics().agents == 0)
        found = await scrape(balancer)
        assert found.value("steersman_agents_lost_total") == 1
        assert found.value("steersman_fleet_engine_steps_total") == 2


async def test_statsd_gets_paddlers_gauges_at_once_and_again() -> None:
    async with statsd_server() as (server, address):
        settings: dict[str, Any] = {"statsd_addr": address, "statsd_reporting_interval_seconds": 0.02}
        async with running_balancer(**settings) as balancer:
            await server.wait(
                b"paddler_slots_processing:0|g", b"paddler_slots_total:0|g", b"paddler_requests_buffered:0|g"
            )
            async with scripted_agent(f"http://{balancer.management_address}", slots=3) as agent:
                async with RawConnection.to(balancer.inference_address) as client:
                    await client.post("/api/v1/continue_from_raw_prompt", {"raw_prompt": "x", "max_tokens": 8})
                    await agent.wait_work()
                    await server.wait(
                        b"paddler_slots_processing:1|g", b"paddler_slots_total:3|g", b"paddler_requests_buffered:0|g"
                    )


async def test_a_statsd_server_that_is_away_disturbs_nothing() -> None:
    async with statsd_server() as (server, address):
        pass
    settings: dict[str, Any] = {
        "statsd_addr": address,
        "statsd_reporting_interval_seconds": 0.01,
        "metrics_prefix": "mine_",
    }
    async with running_balancer(**settings) as balancer:
        for _ in range(5):
            assert (await scrape(balancer)).value("mine_slots_total") == 0
            await asyncio.sleep(0.005)
    assert server.received == []
