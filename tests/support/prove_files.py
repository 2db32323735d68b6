"""A process that proves each model file it is given as the agent does, loads those that pass, and writes what came.

`python -m tests.support.prove_files FILE...` writes one line for each, so that a file that takes the process down is
known by the line that is missing: the tests look at this process from outside.
"""

import logging
import sys
import time

from agent.core.swap_events import Problem
from agent.llama_loaded_model import EngineOutlet
from agent.llama_runtime import LlamaRuntime
from tests.support import agent_states


def main(paths: list[str]) -> None:
    logging.disable()
    outlet = EngineOutlet(publish=lambda report: None, crashed=lambda model, sentence: None)
    runtime = LlamaRuntime(2, 1, outlet, time.monotonic)
    for path in paths:
        sys.stdout.write(f"{_outcome(runtime, path)}\n")
        sys.stdout.flush()


def _outcome(runtime: LlamaRuntime, path: str) -> str:
    state = agent_states.state(path, context_size=256, n_batch=64)
    proved = runtime.prove(state, lambda: True, reload=True)
    if isinstance(proved, Problem):
        return f"refused {proved.issues[0].kind} {proved.issues[0].detail}"
    loaded = runtime.load(state, proved.proof, lambda: True)
    if isinstance(loaded, Problem):
        return f"not loaded: {loaded.issues[0].detail}"
    loaded.reader.tokenize("any text, \N{SNOWMAN} and all")
    loaded.close()
    return "loaded"


if __name__ == "__main__":
    main(sys.argv[1:])
