"""The units, as `deploy/install.sh` puts them, in the eyes of systemd's own tools."""

import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from agent.settings import COMMAND as AGENT
from agent.settings import AgentSettings
from balancer.settings import COMMAND as BALANCER
from balancer.settings import BalancerSettings
from deploy.generate_env import FOLDER
from shared.settings_sources import Command, SettingsModel, load_settings
from tests.support.systemd_tools import ANALYZE, need

SETTINGS: dict[str, tuple[type[SettingsModel], Command]] = {
    "balancer": (BalancerSettings, BALANCER),
    "agent": (AgentSettings, AGENT),
}
LIMITS = {"steersman-balancer.service": 2.0, "steersman-agent@.service": 3.0}
"""How exposed a unit may be by `systemd-analyze security`: 0 is sealed, 10 is an open door."""


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the units, whose program is one that is there."""
    root = tmp_path_factory.mktemp("root")
    subprocess.run([FOLDER / "install.sh", "--prefix", root, "--command", "/bin/true"], check=True, capture_output=True)
    return root / "usr/local/lib/systemd/system"


def analyze(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([need(ANALYZE), *words], capture_output=True, text=True, timeout=50)


def test_systemd_finds_nothing_to_say_about_the_units(units: Path) -> None:
    done = analyze("verify", "--man=no", *sorted(units.iterdir()))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_check_of_the_units_would_find_a_mistake(units: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "steersman-balancer.service"
    wrong.write_text((units / wrong.name).read_text().replace("[Service]\n", "[Service]\nWatchdogSeconds=30\n"))
    assert "WatchdogSeconds" in analyze("verify", "--man=no", wrong).stderr


@pytest.mark.parametrize(("name", "limit"), LIMITS.items())
def test_the_units_are_not_exposed(units: Path, name: str, limit: float) -> None:
    done = analyze("security", "--offline=true", "--no-pager", units / name)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= limit, done.stdout


@pytest.mark.parametrize("name", LIMITS)
def test_every_relaxation_is_explained_beside_its_line(name: str) -> None:
    """A line of the hardening that gives something away, or a comment for one that is left out."""
    text = (FOLDER / "systemd" / name).read_text(encoding="utf-8")
    hardening = text[text.index("# Hardening") :].splitlines()
    for number, line in enumerate(hardening):
        if line.startswith(("DeviceAllow=", "SystemCallFilter=@")):
            above = [one for one in hardening[max(0, number - 2) : number] if one.startswith("#")]
            assert above or name.startswith("steersman-balancer"), f"{line} has no reason above it"
    left_out = {"PrivateNetwork", "ProcSubset"} | (
        {"MemoryDenyWriteExecute", "PrivateDevices", "PrivateUsers"} if "agent" in name else set()
    )
    for setting in left_out:
        assert re.search(rf"^# Not {setting}", text, re.MULTILINE), f"{setting} is left out without a reason"
        assert not re.search(rf"^{setting}=", text, re.MULTILINE)


def test_neither_the_boot_nor_an_agent_waits_for_a_balancer_that_waits_for_its_redis() -> None:
    """A target comes after what it wants, so multi-user.target would come after all of ours, if ours did not say no."""
    target, agent = (
        (FOLDER / "systemd" / name).read_text() for name in ("steersman.target", "steersman-agent@.service")
    )
    assert re.findall(r"^After=(.*)$", target, re.MULTILINE) == ["multi-user.target"]
    assert "steersman-balancer.service" not in " ".join(re.findall(r"^After=(.*)$", agent, re.MULTILINE))


def one_liners() -> list[str]:
    """Every `systemd-run` line of the README."""
    lines = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("systemd-run ")]


def test_the_one_liners_make_units_that_systemd_understands(tmp_path: Path) -> None:
    assert len(one_liners()) == 4
    for number, line in enumerate(one_liners()):
        words = shlex.split(line)
        command = words.index("steersman")
        properties = [value for flag, value in pairwise(words[:command]) if flag == "-p"]
        assert {"Type=notify", "KillMode=mixed"} < set(properties)
        load_settings(*SETTINGS[words[command + 1]], words[command + 2 :], {})  # raises for a wrong flag
        unit = tmp_path / f"try-{number}.service"
        unit.write_text("\n".join(["[Service]", "ExecStart=/bin/true", *properties, ""]))
        done = analyze("verify", "--man=no", unit)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), line


def test_the_users_that_the_units_name_are_made(tmp_path: Path) -> None:
    program = need("systemd-sysusers")
    (tmp_path / "etc").mkdir()
    subprocess.run([program, f"--root={tmp_path}", FOLDER / "sysusers.d/steersman.conf"], check=True)
    made = (tmp_path / "etc/passwd").read_text()
    groups = (tmp_path / "etc/group").read_text()
    for name in LIMITS:
        (user,) = re.findall(r"^User=(.*)$", (FOLDER / "systemd" / name).read_text(), re.MULTILINE)
        assert re.search(rf"^{user}:.*:/usr/sbin/nologin$", made, re.MULTILINE)
    assert re.search(r"^render:.*:steersman-agent$", groups, re.MULTILINE)
    assert re.search(r"^video:.*:steersman-agent$", groups, re.MULTILINE)
