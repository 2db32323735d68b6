"""Reads a request's body: type, size, time, then `body_parsing`. The only place that knows the limits of a body."""

import asyncio
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from balancer.body_parsing import BodyRefused, Model, parse_body

__all__ = ["BodyLimits", "BodyRefused", "read_body", "read_bytes"]

# Above this many bytes parsing would hold up every stream of the loop for more than a millisecond.
OFF_LOOP_BYTES: Final = 256 * 1024

# Begins with all that Paddler says.
WRONG_TYPE_TEXT: Final = "Content type error: send the header Content-Type: application/json"


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """`max_bytes` counts decompressed bytes; a body that has not arrived after `timeout_seconds` is given up."""

    max_bytes: int = 8 * 1024 * 1024
    timeout_seconds: float = 60.0


async def read_body(
    request: web.Request,
    model: type[Model],
    limits: BodyLimits,
    *,
    refuse_duplicate_keys: bool = True,
    wrong_type_status: int = 400,
) -> Model:
    """The body as a validated `model`. Raises BodyRefused (400, 408, 413; `wrong_type_status`: it is not JSON).

    Cancelled when the client goes away; nothing is held then.
    """
    if not _is_json(request.content_type):
        raise BodyRefused(wrong_type_status, WRONG_TYPE_TEXT)
    data = await read_bytes(request, limits)
    if len(data) <= OFF_LOOP_BYTES:
        return parse_body(data, model, refuse_duplicate_keys=refuse_duplicate_keys)
    return await asyncio.to_thread(parse_body, data, model, refuse_duplicate_keys=refuse_duplicate_keys)


async def read_bytes(request: web.Request, limits: BodyLimits) -> bytes:
    """The whole body, never more than `limits.max_bytes` of it in memory. Raises BodyRefused (400, 408, 413)."""
    announced = request.content_length
    if announced is not None and announced > limits.max_bytes:
        raise BodyRefused(
            413, f"JSON payload ({announced} bytes) is larger than allowed (limit: {limits.max_bytes} bytes)."
        )
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.timeout_seconds):
            while part := await request.content.readany():
                size += len(part)
                if size > limits.max_bytes:
                    raise BodyRefused(413, f"JSON payload has exceeded limit ({limits.max_bytes} bytes).")
                parts.append(part)
    except TimeoutError:
        raise BodyRefused(408, "The request body did not arrive in time; send it at once.") from None
    except web.RequestPayloadError:  # broken chunk or compression; a lost client cancels us instead
        raise BodyRefused(
            400, "the body cannot be read; check its encoding and length", is_deserialization=True
        ) from None
    return b"".join(parts)


def _is_json(content_type: str) -> bool:
    """`application/json` and every `+json` type, whatever the charset says: JSON is UTF-8 (RFC 8259, 8.1)."""
    kind, _, subtype = content_type.partition("/")
    return content_type == "application/json" or (kind == "application" and subtype.endswith("+json"))
