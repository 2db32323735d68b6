"""Runs `agent.llama.trial` beside the agent: bounded in time, memory and output, and ended when nobody waits for it.

This module does not touch llama.cpp: what the child does cannot reach this process.
"""

import contextlib
import dataclasses
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

from agent.llama.errors import ContextCannotBeCreated, ModelCannotBeLoaded, ModelLoadAborted

TRIAL_SECONDS = 60.0
"""Generous: a trial takes 0.5 to 2 s, on a cold disk or a busy machine several times that."""
MODEL_REFUSED = 3
CONTEXT_REFUSED = 4
"""Exit statuses of a trial whose last line is a whole sentence."""
DATA_BYTES = 4 << 30
"""Bound of the child's own memory, above what it may copy of the weights. Not of its address space: that counts the
mapped model, which is as large as the file."""
OUTPUT_BYTES = 1 << 20
LINE_CHARACTERS = 300

_POLL_SECONDS = 0.05
_TAIL_BYTES = 16 << 10
_FOLDERS = re.compile(r"\S*/(?=[^/\s]+:\d+: )")  # in front of `file.cpp:12: `: those of the machine that compiled it
_LIKELY_FIRST = b"1000"  # oom_score_adj: when memory runs out, the trial goes and not the agent


@dataclasses.dataclass(frozen=True, slots=True)
class TrialOrder:
    """What to try. `computes`: map the weights and evaluate some rows. `extra_buffers`: as in `LlamaModel.load`, which
    the agent found out. The rest is as in ContextParameters."""

    path: str
    computes: bool
    extra_buffers: bool = False
    context_size: int = 0
    n_batch: int = 2048
    k_cache_dtype: str = "F16"
    v_cache_dtype: str = "F16"
    adapters: dict[str, str] = dataclasses.field(default_factory=dict)  # LoRA adapters to load with it: paths by name
    parent: int = dataclasses.field(default_factory=os.getpid)

    def to_text(self) -> str:
        """One line of ASCII."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "TrialOrder":
        """What `to_text` wrote."""
        return cls(**json.loads(text))


def run_trial(order: TrialOrder, keep_going: Callable[[], bool], weight_bytes: int) -> None:
    """Try the file; returns when it is good. Blocks for at most a minute.

    Raises ModelCannotBeLoaded or ContextCannotBeCreated with a sentence, ModelLoadAborted when `keep_going` said no.
    """
    data_bytes = DATA_BYTES + (2 * weight_bytes if order.computes else 0)
    status, output = run_bounded(trial_command(order), keep_going, data_bytes, TRIAL_SECONDS)
    beside = f" with the LoRA adapters {', '.join(order.adapters)}" if order.adapters else ""
    raise_verdict(f"{order.path}{beside}", status, output)


def trial_command(order: TrialOrder) -> list[str]:
    """The command line; `run_bounded` lets it find the modules that this process finds."""
    return [sys.executable, "-P", "-m", "agent.llama.trial", order.to_text()]


def raise_verdict(path: str, status: int | None, output: str) -> None:
    """Turn a bad end into one sentence. `status` as in `Popen.returncode`; None: it ran out of time."""
    if status == 0:
        return
    line = _last_line(output)
    if status == MODEL_REFUSED and line:
        raise ModelCannotBeLoaded(line)
    if status == CONTEXT_REFUSED and line:
        raise ContextCannotBeCreated(line)
    because = f": {line}" if line else ""
    if status is None:
        raise ModelCannotBeLoaded(f"{path}: it was not loaded within {TRIAL_SECONDS:.0f} s in a trial{because}")
    if status < 0:
        raise ModelCannotBeLoaded(f"{path}: it makes llama.cpp crash ({_signal_name(-status)}){because}")
    raise ModelCannotBeLoaded(f"{path}: a trial of it ended with status {status}{because}")


def run_bounded(
    command: Sequence[str], keep_going: Callable[[], bool], data_bytes: int, seconds: float
) -> tuple[int | None, str]:
    """Exit status (None: killed after `seconds`) and the end of the output. No process of it is left.

    Raises ModelLoadAborted when `keep_going`, asked about 20 times a second, said no; ModelCannotBeLoaded when no
    process can be started.
    """
    with open(os.memfd_create("trial"), "w+b") as output:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_environment(),
                start_new_session=True,  # so that Ctrl-C at the terminal is the agent's own business
            )
        except OSError as error:
            raise ModelCannotBeLoaded(f"no process for a trial of the model can be started: {error.strerror}") from None
        with child:
            try:
                _confine(child.pid, data_bytes)
                status = _wait(child, keep_going, seconds)
            finally:
                if child.returncode is None:
                    _kill_group(child.pid)
        return status, _tail(output)


def _wait(child: subprocess.Popen[bytes], keep_going: Callable[[], bool], seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(_POLL_SECONDS)
        if not keep_going():
            raise ModelLoadAborted("the trial was given up")
        if time.monotonic() > deadline:
            return None


def _environment() -> dict[str, str]:
    """The agent's own, with its module path. A failed assertion starts no debugger, and no accelerator is used: its
    memory may be full of the model that serves."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "GGML_NO_BACKTRACE": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "HIP_VISIBLE_DEVICES": "-1",
    }


def _confine(pid: int, data_bytes: int) -> None:
    """Bounds that the child cannot lift. It may have ended already."""
    bounds = ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, OUTPUT_BYTES), (resource.RLIMIT_DATA, data_bytes))
    with contextlib.suppress(OSError):
        for what, bound in bounds:
            _, hard = resource.prlimit(pid, what)
            bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            resource.prlimit(pid, what, (bound, bound))
    with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as file:
        file.write(_LIKELY_FIRST)


def _kill_group(pid: int) -> None:
    """The child, which leads its group, and whatever it started. Before its end is taken note of: its id is its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _tail(output: BinaryIO) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL_BYTES))
    return output.read(_TAIL_BYTES).decode("utf-8", errors="replace")


def _last_line(output: str) -> str:
    """The last line with something in it, printable and short."""
    lines = [line.strip() for line in output.splitlines()]
    line = next((line for line in reversed(lines) if line), "")
    line = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)
    return _FOLDERS.sub("", line)[:LINE_CHARACTERS]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
