"""Children that end well, badly, never, or loudly: this process stays, and none of theirs does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.llama import trial_process
from agent.llama.errors import ModelCannotBeLoaded, ModelLoadAborted
from agent.llama.trial_process import OUTPUT_BYTES, TrialOrder, run_bounded, run_trial

GIBIBYTE = 1 << 30
DEADLINE_SECONDS = 40.0


def run(
    code: str, keep_going: Callable[[], bool] = lambda: True, seconds: float = DEADLINE_SECONDS
) -> tuple[int | None, str]:
    return run_bounded([sys.executable, "-c", code], keep_going, GIBIBYTE, seconds)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """A zombie that nobody reaps in this container counts as ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_status_and_the_end_of_the_output_come_back() -> None:
    assert run("print('x' * 100_000); print('the last words')")[1].endswith("the last words\n")
    assert run("raise SystemExit(7)")[0] == 7


def test_a_crash_is_a_status_and_leaves_no_core_and_no_debugger() -> None:
    code = (
        "import os, resource, time\n"
        "while resource.getrlimit(resource.RLIMIT_CORE) != (0, 0): time.sleep(0.01)\n"
        "assert os.environ['GGML_NO_BACKTRACE'] == '1'\n"
        "os.abort()\n"
    )
    assert run(code)[0] == -signal.SIGABRT


def test_one_that_never_ends_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "grandchild"
    code = (
        "import subprocess, sys, time\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        f"open({str(note)!r}, 'w').write(str(other.pid))\n"
        "time.sleep(1000)\n"
    )
    with pytest.raises(ModelLoadAborted):
        run(code, keep_going=lambda: not (note.exists() and note.read_text()))
    wait_until(lambda: not is_alive(int(note.read_text())))
    assert run("import time; time.sleep(1000)", seconds=0.1)[0] is None


def test_memory_beyond_its_bound_is_refused_to_it_and_a_mapped_file_does_not_count(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(4 * GIBIBYTE)
    mapping = f"import mmap; f = open({str(large)!r}); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(m[-1])"
    wait = "import resource, time\nwhile resource.getrlimit(resource.RLIMIT_DATA)[0] < 0: time.sleep(0.01)\n"
    assert run(wait + mapping)[0] == 0
    status, output = run(wait + "x = bytearray(2 << 30)")
    assert status == 1
    assert "MemoryError" in output


def test_a_flood_of_output_is_bounded() -> None:
    code = (
        "import os, resource, time\n"
        "while resource.getrlimit(resource.RLIMIT_FSIZE)[0] < 0: time.sleep(0.01)\n"
        "while True: os.write(1, b'x' * 65536)\n"
    )
    status, output = run(code)
    assert status == 1, "it was let write for ever"
    assert len(output) <= OUTPUT_BYTES


def test_its_input_is_closed_and_it_is_the_first_to_go_when_memory_runs_out() -> None:
    code = (
        "import sys, time\n"
        "assert sys.stdin.read() == ''\n"
        "while open('/proc/self/oom_score_adj').read() != '1000\\n': time.sleep(0.01)\n"
    )
    assert run(code)[0] == 0


def test_where_no_process_can_be_started_that_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelCannotBeLoaded, match="No such file"):
        run_bounded([str(tmp_path / "absent")], lambda: True, GIBIBYTE, 1.0)


def test_no_descriptor_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    run("pass")
    with pytest.raises(ModelLoadAborted):
        run("import time; time.sleep(1000)", keep_going=lambda: False)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_trial_that_takes_too_long_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_process, "TRIAL_SECONDS", 0.1)
    monkeypatch.setattr(
        trial_process, "trial_command", lambda order: [sys.executable, "-c", "import time; time.sleep(1000)"]
    )
    with pytest.raises(ModelCannotBeLoaded, match=r"/m\.gguf: it was not loaded within"):
        run_trial(TrialOrder("/m.gguf", computes=False), lambda: True, 0)


def test_a_trial_dies_with_the_agent_that_waits_for_it() -> None:
    hung = (
        "import os, sys, time\n"
        "from agent.llama import trial\n"
        "trial._try = lambda order: (print(os.getpid(), file=sys.stderr, flush=True), time.sleep(1000))\n"
        "trial.main(sys.argv[1:])\n"
    )
    code = (
        "import subprocess, sys\n"
        "from agent.llama.trial_process import TrialOrder\n"
        f"subprocess.run([sys.executable, '-c', {hung!r}, TrialOrder('/m', True).to_text()])\n"
    )
    agent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        assert agent.stderr is not None
        pid = int(agent.stderr.readline())
        assert is_alive(pid)
        agent.kill()
        agent.wait()
        wait_until(lambda: not is_alive(pid))
    finally:
        agent.kill()
        agent.communicate()
