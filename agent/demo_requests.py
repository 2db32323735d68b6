"""What the demo asks, and what it prints for the person to ask next."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

PROMPT_PATH: Final = "/api/v1/continue_from_raw_prompt"
STATE_PATH: Final = "/api/v1/balancer_desired_state"
MAX_TOKENS: Final = 160
QUESTION: Final = "Explain in three sentences why the sky is blue."
# A small model can copy facts into a form better than it knows any. Every string is bounded, so it cannot ramble.
JSON_QUESTION: Final = (
    "Anna Bauer lives in Vienna, Austria. She plays the violin and speaks German, English and Italian. "
    "Write that as JSON."
)
_SHORT: Final = {"type": "string", "minLength": 2, "maxLength": 20}
JSON_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": _SHORT,
        "city": _SHORT,
        "country": _SHORT,
        "instrument": {"enum": ["guitar", "piano", "violin"]},
        "languages": {"type": "array", "items": _SHORT, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "city", "country", "instrument", "languages"],
    "additionalProperties": False,
}
# The likeliest token each time, since it is to copy; a penalty would keep it from repeating what it reads.
_COPYING: Final = {"temperature": 0, "repetition_penalty": 1}

# SmolLM2's own chat format (ChatML), written by hand because the route takes raw prompts. The model wants no BOS.
_CHAT: Final = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
)
_TEXT: Final = "The capital of France is"
_TEXT_AS_TOKENS: Final = (504, 3575, 282, 4649, 314)  # to SmolLM2
_JSON_TYPE: Final = "-H 'Content-Type: application/json'"


def free_body(question: str = QUESTION) -> dict[str, Any]:
    """A question that any text answers."""
    return {"raw_prompt": _CHAT.format(question=question), "max_tokens": MAX_TOKENS}


def json_body() -> dict[str, Any]:
    """A question that only JSON of the schema answers."""
    grammar = {"type": "json_schema", "schema": JSON_SCHEMA}
    return {**free_body(JSON_QUESTION), "sampling": _COPYING, "grammar": grammar}


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the demo's balancer listens, as host:port."""

    inference: str
    compat: str
    management: str


def commands(at: Addresses, model: str, steersman: str) -> Iterator[str]:
    """Command lines that work while the demo serves. `model`: the served model's id; `steersman`: how to call us."""
    raw_prompt = f"http://{at.inference}{PROMPT_PATH}"
    ids = {"model": model, "prompt": list(_TEXT_AS_TOKENS), "max_tokens": 16}
    text = {"model": model, "prompt": _TEXT, "max_tokens_to_sample": 16}
    yield _post(f"-N {raw_prompt}", free_body("Name three rivers."))
    yield _post(f"-N {raw_prompt}", json_body())
    yield f"curl http://{at.compat}/v1/models"
    yield _post(f"http://{at.compat}/v1/completions", ids)
    yield _post(f"http://{at.compat}/v1/complete", text)
    yield f"{steersman} status --management-addr {at.management}"
    for path in ("/api/v1/agents", "/api/v1/fleet", STATE_PATH, "/metrics"):
        yield f"curl http://{at.management}{path}"


def _post(where: str, body: dict[str, Any]) -> str:
    return f"curl {where} {_JSON_TYPE} -d {shlex.quote(json.dumps(body))}"
