"""Every answer names its request, whichever service, status and fault; a bug's too, by the id that is in the log."""

from typing import Any, NoReturn

from balancer.listeners import Listener, new_service
from balancer.native_routes import RAW_PROMPT_PATH, NativeRoutes
from balancer.request_account import RequestBooks
from balancer.request_body import BodyLimits
from balancer.request_record import Outcome, QuietObserver, RequestRecord
from shared.settings_sources import Address
from tests.support.raw_http import Answer, RawConnection
from tests.support.running_balancer import running_balancer


async def answer_of(address: Address, method: str, path: str, body: Any = b"") -> Answer:
    async with RawConnection.to(address) as client:
        if method == "POST":
            await client.post(path, body)
        else:
            await client.request(method, path)
        return await client.read_answer()


async def test_every_answer_of_every_service_has_an_id_of_its_own() -> None:
    async with running_balancer() as balancer:
        asked = [
            (await answer_of(address, method, path), status)
            for address, method, path, status in (
                (balancer.inference_address, "GET", "/health", 200),
                (balancer.inference_address, "GET", "/nowhere", 404),
                (balancer.inference_address, "POST", RAW_PROMPT_PATH, 400),
                (balancer.compat_address, "GET", "/v1/completions", 405),
                (balancer.compat_address, "GET", "/v1/models", 200),
                (balancer.management_address, "GET", "/ready", 503),
                (balancer.management_address, "GET", "/metrics", 200),
                (balancer.management_address, "GET", "/api/v1/stories/none", 404),
            )
        ]
    assert [answer.status for answer, _ in asked] == [status for _, status in asked]
    names = [answer.head.headers["x-request-id"] for answer, _ in asked]
    assert len(set(names)) == len(names)


async def test_the_answer_about_a_bug_names_the_request_that_is_in_the_log() -> None:
    records: list[RequestRecord] = []

    class Kept(QuietObserver):
        def ended(self, record: RequestRecord) -> None:
            records.append(record)

    def broken(_: object) -> NoReturn:
        raise ZeroDivisionError

    app = new_service([])
    NativeRoutes(broken, lambda: False, BodyLimits(), 30.0, books=RequestBooks((Kept(),))).add_to(app)
    listener = Listener("inference", app, Address("127.0.0.1", 0))
    await listener.start()
    try:
        answer = await answer_of(
            listener.addresses[0], "POST", RAW_PROMPT_PATH, {"raw_prompt": "2+2=", "max_tokens": 4}
        )
    finally:
        await listener.close()
    (record,) = records
    assert (answer.status, answer.head.headers["x-request-id"]) == (500, record.request_id)
    assert (record.outcome, record.status) == (Outcome.FAILED, 500)
