"""What is no HTTP gets a plain sentence: nothing that was sent, no name or version of what we run on."""

import pytest

from balancer.listeners import Listener, new_service
from shared.settings_sources import Address
from tests.support.raw_http import RawConnection

HEAD = b"POST /health HTTP/1.1\r\nHost: x\r\n"
NOT_HTTP = "The request is not valid HTTP."
NOT_DECODED = "The body cannot be decoded; send it as it is, or with Content-Encoding gzip or deflate."


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\x16\x03\x01\x02\x00", NOT_HTTP),
        (HEAD + b"sec ret: secret\r\n\r\n", NOT_HTTP),
        (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", NOT_HTTP),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nsecret\r\n", NOT_HTTP),
        (HEAD + b"X: " + b"secret" * 2000 + b"\r\n\r\n", "The request line or a header is too long."),
        (HEAD + b"Content-Encoding: br\r\nContent-Length: 6\r\n\r\nsecret", NOT_DECODED),
    ],
)
async def test_what_is_no_http_gets_a_plain_sentence(sent: bytes, said: str) -> None:
    listener = Listener("compat", new_service([]), Address("127.0.0.1", 0))
    await listener.start()
    try:
        async with RawConnection.to(listener.addresses[0]) as client:
            await client.send(sent)
            answer = await client.read_answer()
    finally:
        await listener.close()
    assert (answer.status, answer.text) == (400, said)
    assert answer.head.headers["server"] == "steersman"
    assert answer.head.headers["content-type"].startswith("text/plain")
