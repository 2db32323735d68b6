"""`steersman agent` as a process: signals, exit statuses, sentences. No balancer listens, no model is loaded."""

import os
import signal
import socket
import subprocess
import sys

import pytest

DEADLINE_SECONDS = 50.0
COMMAND = [sys.executable, "-c", "import sys; from shared.command_line import main; sys.exit(main())"]


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_until_it_dials(agent: "subprocess.Popen[str]", listener_address: str) -> None:
    """Its signal handlers are set before it dials; a refused port makes it say so."""
    assert agent.stderr is not None
    for line in agent.stderr:
        if listener_address in line:
            return
    raise AssertionError("the agent ended before it dialled")


def test_one_signal_ends_it_in_order() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    process = start("agent", "--management-addr", address, "--slots", "1")
    try:
        wait_until_it_dials(process, address)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0, stderr
        assert "Traceback" not in stderr
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--slots", "1"], "--management-addr is required"),
        (["--management-addr", "localhost", "--slots", "1"], "HOST:PORT"),
        (["--management-addr", "a:1", "--slots", "1", "--agent-token-file", "/nonexistent"], "/nonexistent"),
    ],
)
def test_a_wrong_setting_is_one_sentence_and_status_2(arguments: list[str], part: str) -> None:
    done = subprocess.run([*COMMAND, "agent", *arguments], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 2
    assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_second_signal_ends_it_at_once() -> None:
    code = (
        "import asyncio, signal, os, sys\n"
        "from agent import cli\n"
        "stop = asyncio.Event()\n"
        "cli._on_signal(signal.SIGTERM, stop)\n"
        "assert stop.is_set()\n"
        "cli._on_signal(signal.SIGTERM, stop)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr


def test_help_names_the_flags() -> None:
    done = subprocess.run([*COMMAND, "agent", "--help"], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0
    for flag in ("--management-addr", "--slots", "--name", "--drain-timeout", "--agent-token-file", "--config"):
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
