"""The units under a real systemd, as docs/one-host.md and docs/systemd.md have it: installed, started, asked, reloaded,
broken and mended. What only a running systemd shows: users, mounts, credentials, the journal, restarts."""

import json
import shutil
from pathlib import Path

from tests.support.systemd_box import BOX, PROGRAM, SystemdBox, systemd_box
from tests.support.tiny_model import TinyModel, tiny_model_path

# Not marked `model`: a skip here says that there is no systemd to be had, which is no failure.

BALANCER, AGENT = "steersman-balancer", "steersman-agent@cpu"
KEY, OTHER_KEY = "alice-key", "bob-key"
MANAGEMENT, COMPAT = "http://127.0.0.1:8060", "http://127.0.0.1:8070"
AGENT_SETTINGS = "/etc/steersman/agents/cpu.env"


def test_one_host_from_nothing_and_back(tmp_path: Path) -> None:
    with systemd_box(tmp_path) as box:
        it_is_installed_again_and_again(box)
        it_starts_with_its_secrets_and_serves(box, tiny_model_path(tmp_path, TinyModel()))
        a_reload_takes_over_keys_and_agents_come_back_after_a_restart(box)
        an_aborted_agent_leaves_its_stacks_and_is_started_again(box)
        a_wrong_setting_is_final(box)
        it_is_uninstalled(box)


def it_is_installed_again_and_again(box: SystemdBox) -> None:
    words = (f"{BOX}/source/deploy/install.sh", "--command", PROGRAM)
    assert "put      /etc/steersman/balancer.env" in box.run(*words)
    assert "put " not in box.run(*words)
    assert "steersman-agent" in box.run("id", "-Gn", "steersman-agent")


def it_starts_with_its_secrets_and_serves(box: SystemdBox, model: Path) -> None:
    box.write("/etc/credstore/steersman.inference-keys", f"alice:{KEY}\n", 0o600)
    box.write("/etc/credstore/steersman.agent-token", "token\n", 0o600)
    box.path("/srv/models").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(model, box.path("/srv/models/model.gguf"))
    box.run("systemctl", "enable", "--now", "steersman.target", BALANCER, AGENT)  # READY=1 of both, or it fails
    state = ("--data", f"@{BOX}/source/docs/desired-state.json")
    asked = box.run(*curl("-X", "PUT", "-H", "Content-Type: application/json", *state), management_path())
    assert asked == "", asked
    wait_healthy(box)
    assert status_of_models(box, KEY) == "200"
    assert status_of_models(box, "guessed") == "401"
    box.wait_until("the status", lambda: box.shows(AGENT, "StatusText").startswith("model.gguf, 0/4 slots busy, "))
    assert "generated_tokens=4" in completion_in_the_log(box)
    assert box.path("/var/lib/steersman-balancer/state.json").stat().st_mode & 0o777 == 0o600


def a_reload_takes_over_keys_and_agents_come_back_after_a_restart(box: SystemdBox) -> None:
    agent = box.shows(AGENT, "MainPID")
    box.write("/etc/steersman/keys", f"alice:{KEY}\n")
    with box.path("/etc/steersman/balancer.env").open("a", encoding="utf-8") as settings:
        settings.write("STEERSMAN_BALANCER_INFERENCE_KEYS_FILE=/etc/steersman/keys\n")
    box.run("systemctl", "restart", BALANCER)
    balancer = box.shows(BALANCER, "MainPID")
    box.write("/etc/steersman/keys", f"alice:{KEY}\nbob:{OTHER_KEY}\n")
    box.run("systemctl", "reload", BALANCER)
    box.wait_until("the new key", lambda: status_of_models(box, OTHER_KEY) == "200")
    box.write("/etc/steersman/keys", "")
    box.run("systemctl", "reload", BALANCER)
    box.wait_until("the refusal", lambda: "holds no key" in box.journal("-u", BALANCER))
    assert status_of_models(box, OTHER_KEY) == "200", "what is refused changes nothing"
    lines = [json.loads(line) for line in box.journal("-u", BALANCER, "-p", "err", "-o", "json").splitlines()]
    assert [(line["PRIORITY"], "holds no key" in line["MESSAGE"]) for line in lines] == [("3", True)]
    wait_healthy(box)
    assert (box.shows(BALANCER, "MainPID"), box.shows(AGENT, "MainPID")) == (balancer, agent)


def an_aborted_agent_leaves_its_stacks_and_is_started_again(box: SystemdBox) -> None:
    """What the watchdog does to one that hangs."""
    drop_in = box.path(f"/run/systemd/system/{AGENT}.service.d")
    drop_in.mkdir()
    (drop_in / "sooner.conf").write_text("[Service]\nRestartSec=100ms\n")
    box.run("systemctl", "daemon-reload")
    box.run("systemctl", "kill", "--signal=ABRT", "--kill-whom=main", AGENT)
    box.wait_until("the restart", lambda: box.shows(AGENT, "NRestarts") == "1")
    wait_healthy(box)
    stacks = box.journal("-u", AGENT, "-o", "cat")
    assert "Fatal Python error: Aborted" in stacks
    assert "agent/engine/thread.py" in stacks


def a_wrong_setting_is_final(box: SystemdBox) -> None:
    box.write(AGENT_SETTINGS, "STEERSMAN_AGENT_SLOTS=many\n")
    box.run("systemctl", "restart", AGENT, status=1)
    assert box.shows(AGENT, "ExecMainStatus") == "2"
    assert box.shows(AGENT, "ActiveState") == "failed", "it would be started again and again"
    assert "steersman agent: STEERSMAN_AGENT_SLOTS: must be an integer" in box.journal("-u", AGENT, "-o", "cat")


def it_is_uninstalled(box: SystemdBox) -> None:
    said = box.run(f"{BOX}/source/deploy/install.sh", "--uninstall")
    assert f"kept     {AGENT_SETTINGS}: it was edited" in said
    assert box.run("systemctl", "list-unit-files", "--no-legend", "steersman*", status=1) == ""
    assert box.path("/var/lib/steersman-balancer/state.json").exists()


def curl(*words: str) -> tuple[str, ...]:
    return ("curl", "-sS", "--max-time", "60", *words)


def management_path() -> str:
    return f"{MANAGEMENT}/api/v1/balancer_desired_state"


def status_of_models(box: SystemdBox, key: str) -> str:
    shown = ("-o", "/dev/null", "-w", "%{http_code}", "-H", f"Authorization: Bearer {key}")
    return box.run(*curl(*shown), f"{COMPAT}/v1/models")


def completion_in_the_log(box: SystemdBox) -> str:
    """One is asked for; its line in the journal."""
    body = json.dumps({"model": "model", "prompt": [72, 105], "max_tokens": 4, "ignore_eos": True})
    head = ("-H", f"Authorization: Bearer {KEY}", "-H", "Content-Type: application/json", "--data", body)
    answer = json.loads(box.run(*curl(*head), f"{COMPAT}/v1/completions"))
    return box.journal("-u", BALANCER, "-o", "cat", "-g", answer["id"])


def wait_healthy(box: SystemdBox) -> None:
    ready = (*curl("-o", "/dev/null", "-w", "%{http_code}"), f"{MANAGEMENT}/ready")
    box.wait_until("ready", lambda: box.run(*ready) == "200")
