"""The printed script in a real bash: what it completes is what the commands take."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.console_run import run_now

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="needs bash")

ASK = """
source "$1"
shift
complete -p steersman
while IFS= read -r line; do
  eval "COMP_WORDS=($line)"
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _steersman
  printf '%s|' "${COMPREPLY[@]}"
  echo
done
"""

LINES = {
    "steersman sta": ["status", "state"],
    "steersman ''": "balancer agent demo status top state bench completion --help --version".split(),
    "steersman status --man": ["--management-addr", "--management-token-file"],
    "steersman balancer --log-level ''": ["debug", "info", "warning", "error"],
    "steersman agent --slo": ["--slots"],
    "steersman demo --o": ["--once"],
    "steersman state ''": ["get", "set", "edit"],
    "steersman state --yes s": ["set"],
    "steersman state set a": ["a file.json", "apart"],
    "steersman status --cacert b": ["b.pem"],
    "steersman status --timeout ''": [],
    "steersman status a": [],
    "steersman bench --api comp": ["completions", "complete"],
    "steersman completion f": ["fish"],
    "steersman nonsense ''": [],
}


def test_bash_completes_commands_flags_values_and_files(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(run_now("completion", "bash").out, encoding="utf-8")
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("a file.json", "apart", "b.pem"):
        (folder / name).touch()
    assert BASH is not None
    ran = subprocess.run(
        [BASH, "--norc", "-u", "-c", ASK, "bash", str(script)],
        input="\n".join(LINES) + "\n",
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=20,
        check=False,
    )
    first, *answers = ran.stdout.splitlines()
    assert first == "complete -F _steersman steersman"
    assert "unbound variable" not in ran.stderr
    found = {line: sorted(filter(None, answer.split("|"))) for line, answer in zip(LINES, answers, strict=True)}
    assert found == {line: sorted(words) for line, words in LINES.items()}


@pytest.mark.parametrize(("shell", "check"), [("zsh", "-n"), ("fish", "--no-execute"), ("bash", "-n")])
def test_a_script_is_one_that_its_shell_can_read(shell: str, check: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(run_now("completion", shell).out, encoding="utf-8")
    subprocess.run([program, check, str(script)], check=True, timeout=20)
