"""`steersman demo`, the first thing a newcomer runs: what it prints works, and Ctrl-C leaves nothing behind."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.demo_requests import PROMPT_PATH
from tests.support.demo_process import (
    DEADLINE_SECONDS,
    DemoProcess,
    curl,
    freeze,
    running_demo,
    runs,
    wait_ended,
    wait_told_to_end,
)

LAST_LINE = "Ctrl-C stops it."
QUESTION_MARK = "\n> "  # the demo shows what it asks like this

pytestmark = pytest.mark.model


class Demos(NamedTuple):
    """Two that run at the same time, and the processes of the one that leaves by itself."""

    serving: DemoProcess
    once: DemoProcess
    children_of_once: dict[str, int]


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demos]:
    """The second starts when the first has its ports: both look for free ones."""
    with running_demo(tmp_path_factory.mktemp("serving")) as serving:
        serving.wait_printed("Starting an agent")
        with running_demo(tmp_path_factory.mktemp("once"), "--once") as once:
            yield Demos(serving, once, once.wait_children(2))


def assert_nothing_left(demo: DemoProcess, children: dict[str, int]) -> None:
    assert not [name for name, process_id in children.items() if runs(process_id)], demo.log
    assert "Traceback" not in demo.log, demo.log


def test_it_serves_what_its_curl_lines_ask_for_until_ctrl_c(demos: Demos) -> None:
    demo = demos.serving
    printed = demo.wait_printed(LAST_LINE)
    children = demo.wait_children(2)
    lines = [line.strip() for line in printed.splitlines() if line.strip().startswith("curl ")]
    with ThreadPoolExecutor(len(lines)) as terminals:
        answers = dict(zip(lines, terminals.map(curl, lines), strict=True))
    assert all(status == 200 for status, _ in answers.values()), answers
    streams = [body for line, (_, body) in answers.items() if PROMPT_PATH in line]
    assert len(streams) == 2, printed
    texts = [json.loads(body) for line, (_, body) in answers.items() if "/v1/complet" in line]
    assert [bool(text.get("choices") or text.get("completion")) for text in texts] == [True, True], texts
    for body in streams:
        last = json.loads(body.splitlines()[-1])
        assert "Done" in last["Response"]["response"]["GeneratedToken"], last
    assert any("demo-agent" in body.decode() for _, body in answers.values())
    demo.send(signal.SIGINT)
    assert demo.wait_exit() == 0
    assert demo.log.rstrip().endswith("Stopping.")
    assert_nothing_left(demo, children)


def test_once_ends_well_after_the_answer_and_its_usage(demos: Demos) -> None:
    demo = demos.once
    assert demo.wait_exit(DEADLINE_SECONDS) == 0, demo.log
    assert " prompt tokens (" in demo.log
    assert LAST_LINE not in demo.log
    assert "8060, 8061 and 8070 of 127.0.0.1 are in use" in demo.log  # the other demo has them, or another program
    assert_nothing_left(demo, demos.children_of_once)


@pytest.mark.long  # the short form has the other ends of a demo
def test_ctrl_c_before_the_answer_is_complete_is_no_success(tmp_path: Path) -> None:
    with running_demo(tmp_path, "--once") as demo:
        demo.wait_printed(QUESTION_MARK)
        children = demo.wait_children(2)
        demo.send(signal.SIGINT)
        assert demo.wait_exit() == 1
        assert "Stopped before the answer was complete." in demo.log
        assert_nothing_left(demo, children)


def test_a_second_ctrl_c_does_not_wait_for_an_agent_that_hangs(tmp_path: Path) -> None:
    with running_demo(tmp_path) as demo:
        demo.wait_printed("Telling the fleet")
        children = demo.wait_children(2)
        freeze(children["agent"])
        demo.send(signal.SIGINT)
        wait_told_to_end(children["agent"])
        assert runs(children["balancer"])
        demo.send(signal.SIGINT)
        assert demo.wait_exit() == 1
        assert_nothing_left(demo, children)


def test_a_terminal_that_closes_ends_all_of_it_even_when_it_is_told_twice(tmp_path: Path) -> None:
    with running_demo(tmp_path) as demo:
        demo.wait_printed("Telling the fleet")
        children = demo.wait_children(2)
        freeze(children["agent"])
        demo.send(signal.SIGHUP)
        wait_told_to_end(children["agent"])
        demo.send(signal.SIGHUP)
        os.kill(children["agent"], signal.SIGCONT)
        assert demo.wait_exit() == 1
        assert_nothing_left(demo, children)


def test_a_demo_that_is_killed_leaves_nothing_either(tmp_path: Path) -> None:
    with running_demo(tmp_path) as demo:
        demo.wait_printed("Starting an agent")
        children = demo.wait_children(2)
        demo.send(signal.SIGKILL)
        assert demo.wait_exit() == -signal.SIGKILL
        wait_ended(children.values())
