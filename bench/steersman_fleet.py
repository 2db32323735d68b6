"""Our side of a comparison: one balancer and one agent as users start them, on the model of the comparison."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import protocol
from bench.processes import Process, free_port, wait_until

STEERSMAN = str(Path(sys.executable).with_name("steersman"))

GREEDY: dict[str, Any] = {
    "min_p": 0.0,
    "penalty_frequency": 0.0,
    "penalty_presence": 0.0,
    "penalty_repeat": 1.0,
    "temperature": 0.0,
    "top_k": 1,
    "top_p": 1.0,
}
DEFAULT_CHAIN: dict[str, Any] = {
    "min_p": 0.05,
    "penalty_frequency": 0.0,
    "penalty_presence": 0.8,
    "penalty_repeat": 1.1,
    "temperature": 0.8,
    "top_k": 80,
    "top_p": 0.8,
}


@dataclass(frozen=True, slots=True)
class Fleet:
    """A running fleet: where to send requests, and its processes."""

    inference: str
    management: str
    compat: str
    balancer: Process
    agents: tuple[Process, ...]

    def put_state(self, model: protocol.Model, slots: int, sampling: dict[str, Any]) -> None:
        """Set the desired state and wait until all slots serve it."""
        parameters = {
            "n_batch": 2048,
            "context_size": slots * protocol.CONTEXT_TOKENS_PER_SLOT,
            "embedding_batch_size": 256,
            "enable_embeddings": False,
            "image_resize_to_fit": 1024,
            "k_cache_dtype": protocol.KV_TYPE,
            "v_cache_dtype": protocol.KV_TYPE,
            "n_gpu_layers": 0,
            "penalty_last_n": -1,
            "pooling_type": "Last",
            **sampling,
        }
        state = {
            "chat_template_override": None,
            "inference_parameters": parameters,
            "model": {"LocalToAgent": str(model.path)},
            "multimodal_projection": "None",
            "use_chat_template_override": False,
        }
        url = f"{self.management}/api/v1/balancer_desired_state"
        body = json.dumps(state).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            pass
        wait_until(
            lambda: self._serves(slots),
            "the agent serves the model",
            120,
            (self.balancer, *self.agents),
        )

    def _serves(self, slots: int) -> bool:
        try:
            ready = fetch_json(f"{self.management}/ready")
            agents = fetch_json(f"{self.management}/api/v1/agents")["agents"]
        except urllib.error.HTTPError:
            return False
        if ready["serving_revisions"] != [ready["wanted_revision"]]:
            return False
        return bool(sum(agent["slots_total"] for agent in agents) == slots * len(self.agents))


@contextmanager
def running_fleet(work: Path, slots: int, agents: int = 1, flags: tuple[str, ...] = ()) -> Iterator[Fleet]:
    """A balancer with embedded state and `agents` agents, ended on leaving."""
    inference, management, compat = (f"127.0.0.1:{free_port()}" for _ in range(3))
    command = [STEERSMAN, "balancer", "--inference-addr", inference, "--management-addr", management]
    command += ["--compat-addr", compat, *flags]
    with Process(command, work / "balancer.log") as balancer:
        wait_until(lambda: _healthy(management), "the balancer answers", 30, [balancer])
        started = []
        try:
            for number in range(agents):
                words = [STEERSMAN, "agent", "--management-addr", management, "--slots", str(slots)]
                words += ["--name", f"bench-{number}", "--threads", str(protocol.THREADS)]
                started.append(Process(words, work / f"agent-{number}.log"))
            yield Fleet(f"http://{inference}", f"http://{management}", f"http://{compat}", balancer, tuple(started))
        finally:
            for agent in started:
                agent.stop()


def fetch_metric(management: str, name: str) -> float:
    """The value of a metric without labels. Raises LookupError when it is not exported."""
    with urllib.request.urlopen(f"{management}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
    raise LookupError(f"{management}/metrics has no {name}")


def fetch_json(url: str) -> Any:
    """GET, parsed."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/health", timeout=2):
            return True
    except OSError:
        return False
