"""One shape for whole JSON answers."""

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web


def json_answer(document: Any, headers: Mapping[str, str] | None = None, status: int = 200) -> web.Response:
    """`application/json`, keys in the order given, never cached by anyone in between."""
    return web.Response(
        status=status,
        body=orjson.dumps(document),
        content_type="application/json",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )
