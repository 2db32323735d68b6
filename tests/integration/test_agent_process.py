"""`steersman agent` as a process: signals, exit statuses, sentences. No balancer listens, no model is loaded."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

from tests.support.child_environment import child_environment

DEADLINE_SECONDS = 50.0
COMMAND = [sys.executable, "-c", "import sys; from shared.command_line import main; sys.exit(main())"]


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )


def wait_until_it_dials(agent: "subprocess.Popen[str]", listener_address: str) -> str:
    """Its signal handlers are set before it dials; a refused port makes it say so. Returns what it said before."""
    assert agent.stderr is not None
    said = ""
    for line in agent.stderr:
        if listener_address in line:
            return said
        said += line
    raise AssertionError("the agent ended before it dialled")


def get(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}", timeout=DEADLINE_SECONDS) as answer:
        text: str = answer.read().decode()
    return text


def test_it_serves_its_metrics_and_one_signal_ends_it_in_order() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    process = start("agent", "--management-addr", address, "--slots", "1", "--metrics-addr", "127.0.0.1:0")
    try:
        served = re.search(r"metrics are served on (\S+)", wait_until_it_dials(process, address))
        assert served is not None
        assert get(f"{served[1]}/health") == "OK"
        assert "steersman_agent_engine_steps_total 0.0" in get(f"{served[1]}/metrics")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0, stderr
        assert "Traceback" not in stderr
    finally:
        process.kill()


def test_a_wrong_setting_is_one_sentence_and_status_2() -> None:
    wrong = {
        "--management-addr is required": ["--slots", "1"],
        "HOST:PORT": ["--management-addr", "localhost", "--slots", "1"],
        "/nonexistent": ["--management-addr", "a:1", "--slots", "1", "--agent-token-file", "/nonexistent"],
    }
    started = {part: start("agent", *arguments) for part, arguments in wrong.items()}
    for part, process in started.items():
        _, stderr = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 2
        assert part in stderr
        assert len(stderr.strip().splitlines()) == 1


def test_a_second_signal_ends_it_at_once() -> None:
    code = (
        "import asyncio, signal, os, sys\n"
        "from shared.process_signals import take_stopping_signal\n"
        "stop = asyncio.Event()\n"
        "take_stopping_signal(signal.SIGTERM, stop)\n"
        "assert stop.is_set()\n"
        "take_stopping_signal(signal.SIGTERM, stop)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr


def test_help_names_the_flags() -> None:
    done = subprocess.run([*COMMAND, "agent", "--help"], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0
    for flag in (
        "--management-addr",
        "--slots",
        "--name",
        "--drain-timeout",
        "--agent-token-file",
        "--metrics-addr",
        "--config",
    ):
        assert flag in done.stdout
    assert "STEERSMAN_AGENT_" in done.stdout


def test_the_demo_says_in_one_sentence_that_its_model_is_missing() -> None:
    code = (
        "import sys\n"
        "from agent import demo\n"
        "demo.MODEL_PACKAGE = 'no_such_package_here'\n"
        "sys.exit(demo.main(['--once']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_SECONDS, env=dict(os.environ)
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "pip install --no-deps no-such-package-here" in line
