"""`deploy/install.sh` into a scratch root: again and again, edited settings, looking only, and away again."""

import subprocess
from pathlib import Path

import pytest

from deploy.generate_env import FOLDER

BALANCER_ENV = "etc/steersman/balancer.env"
UNIT = "usr/local/lib/systemd/system/steersman-balancer.service"


def install(root: Path, *flags: str, program: str = "/bin/true") -> str:
    """What it said."""
    done = subprocess.run(
        [FOLDER / "install.sh", "--prefix", root, "--command", program, *flags],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def snapshot(root: Path) -> dict[str, tuple[bytes, int, int]]:
    """Content, mode and time of every file below."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns) for path in files
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a space in its name, as people have them."""
    made = tmp_path / "scratch root"
    made.mkdir()
    return made


def test_a_second_run_changes_nothing(root: Path) -> None:
    first = install(root, "--agent", "gpu0")
    assert "systemctl enable --now steersman.target steersman-balancer" in first
    before = snapshot(root)
    assert {BALANCER_ENV, UNIT, "etc/steersman/agent.env", "etc/steersman/agents/gpu0.env"} < set(before)
    assert b"ExecStart=/bin/true balancer" in before[UNIT][0]
    second = install(root)  # without a name: the agents that are here
    assert "put " not in second
    assert "updated" not in second
    assert snapshot(root) == before


def test_looking_only_changes_nothing(root: Path) -> None:
    assert f"would put {root}/{UNIT}" in install(root, "--dry-run")
    assert snapshot(root) == {}
    install(root)
    before = snapshot(root)
    assert f"would remove {root}/{UNIT}" in install(root, "--uninstall", "--dry-run")
    assert f"would update {root}/{UNIT}" in install(root, "--dry-run", program="/bin/false")
    assert snapshot(root) == before


def test_an_update_brings_new_files_and_leaves_edited_ones(root: Path) -> None:
    install(root)
    edited = root / BALANCER_ENV
    edited.write_text("STEERSMAN_BALANCER_MAX_BUFFERED_REQUESTS=7\n")
    said = install(root, program="/bin/false")
    assert f"kept     {edited}: it was edited" in said
    assert edited.read_text() == "STEERSMAN_BALANCER_MAX_BUFFERED_REQUESTS=7\n"
    assert f"updated  {root}/{UNIT}" in said
    assert "ExecStart=/bin/false balancer" in (root / UNIT).read_text()


def test_going_away_leaves_what_was_edited_and_nothing_else(root: Path) -> None:
    install(root)
    edited = root / BALANCER_ENV
    edited.write_text("# mine\n")
    said = install(root, "--uninstall")
    assert f"kept     {edited}: it was edited" in said
    assert set(snapshot(root)) == {BALANCER_ENV}
    # It comes back as it was left.
    install(root, "--role", "balancer")
    assert edited.read_text() == "# mine\n"
    assert not (root / "etc/steersman/agent.env").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--role", "both"), "--role must be balancer, agent or all, not both"),
        (("--agent", "a/../b"), "a name has letters, digits, - and _ only"),
        (("--wat",), "there is no flag --wat; --help lists the flags"),
        (("--prefix",), "--prefix needs a value"),
        (("--prefix", "relative"), "--prefix must be an absolute path"),
        (("--prefix", "/nonexistent", "--command", "/nonexistent"), "--command /nonexistent is not a program"),
    ],
)
def test_what_it_cannot_do_is_one_plain_sentence(flags: tuple[str, ...], words: str) -> None:
    done = subprocess.run([FOLDER / "install.sh", *flags], capture_output=True, text=True, timeout=50)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
