"""Who shows no key on the compatibility service reads so in the words of the API that was asked."""

from typing import Final

from aiohttp import hdrs, web

from balancer.compat_errors import CompatError
from balancer.compat_relay import error_answer
from balancer.complete_answers import NEWEST, habits_of
from balancer.complete_routes import COMPLETE_PATH, VERSION_HEADER
from balancer.completions_routes import in_openai_shape
from shared.identifiers import new_identifier

API_KEY_HEADER: Final = "x-api-key"
API_KEY_PATHS: Final = frozenset({COMPLETE_PATH})
"""Where a key may also come in that header."""

_BEARER_ONLY: Final = CompatError(401, "a valid key is required: Authorization: Bearer <key>", None, "invalid_api_key")
_EITHER: Final = CompatError(
    401, f"a valid key is required: Authorization: Bearer <key>, or {API_KEY_HEADER}: <key>", None, "invalid_api_key"
)


def refuse_without_key(request: web.Request) -> web.Response:
    """401."""
    answer = in_shape_of_path(request, _EITHER if request.path == COMPLETE_PATH else _BEARER_ONLY)
    answer.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return answer


def in_shape_of_path(request: web.Request, error: CompatError) -> web.Response:
    """For what no route answers; paths that nobody serves have OpenAI's shape."""
    if request.path != COMPLETE_PATH:
        return error_answer(error, in_openai_shape, new_identifier())
    habits = habits_of(request.headers.get(VERSION_HEADER)) or NEWEST
    answer = error_answer(error, habits.error, new_identifier())
    if error.status == 405:  # Anthropic's API has no such status, HTTP has
        answer.set_status(405)
    return answer
