"""`steersman state` against a real balancer: what is stored, what is refused, and what an editor leaves."""

import json
import shlex
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from balancer.desired_state_store import InMemoryDesiredStateStore, StoredState, StoreUnavailable
from shared.desired_state import DEFAULT_DESIRED_STATE, BalancerDesiredState
from shared.settings_sources import Address
from tests.support.console_run import Ran, run
from tests.support.management_service import management_service
from tests.support.running_balancer import running_balancer


class Operator:
    """Somebody at a terminal, with an editor that is a few lines of Python."""

    def __init__(self, address: Address, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self.address = str(address)
        monkeypatch.setenv("TMPDIR", str(folder))
        monkeypatch.setattr("tempfile.tempdir", None)
        monkeypatch.delenv("VISUAL", raising=False)

    async def state(self, *words: str, answers: str = "") -> Ran:
        return await run("state", *words, "--management-addr", self.address, answers=answers)

    async def stored(self) -> tuple[Any, str]:
        ran = await self.state("get")
        assert ran.status == 0, ran
        return json.loads(ran.out), ran.err

    def write(self, name: str = "state.json", **changes: Any) -> str:
        path = self.folder / name
        path.write_text(json.dumps({**DEFAULT_DESIRED_STATE.document(), **changes}), encoding="utf-8")
        return str(path)

    def edits_with(self, *turns: str) -> None:
        """Each turn replaces `document` with an expression; the last one goes on."""
        editor = self.folder / "editor.py"
        editor.write_text(EDITOR.format(turns=turns, log=str(self.folder / "modes")), encoding="utf-8")
        self._monkeypatch.setenv("EDITOR", f"{shlex.quote(sys.executable)} -S -E {shlex.quote(str(editor))}")

    @property
    def left_behind(self) -> list[Path]:
        return list(self.folder.glob("steersman-state-*"))


NOBODY = 1  # a port at which nobody listens

EDITOR = """
import json, os, sys
turns, log = {turns!r}, {log!r}
turn = os.path.getsize(log) // 4 if os.path.exists(log) else 0
open(log, "a").write("%03o\\n" % (os.stat(sys.argv[1]).st_mode & 0o777))
text = open(sys.argv[1]).read()
document = json.loads(text) if len(text) > 9 else None
new = eval(turns[min(turn, len(turns) - 1)])
open(sys.argv[1], "w").write(new if isinstance(new, str) else json.dumps(new))
"""
HOTTER = '{**document, "inference_parameters": {**document["inference_parameters"], "temperature": 1.5}}'


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    @asynccontextmanager
    async def at_work(**settings: Any) -> AsyncIterator[Operator]:
        async with running_balancer(**settings) as balancer:
            yield Operator(balancer.management_address, tmp_path, monkeypatch)

    return at_work


async def test_a_file_is_shown_asked_for_and_stored(operator: Any) -> None:
    async with operator() as someone:
        document, told = await someone.stored()
        assert document == DEFAULT_DESIRED_STATE.document()
        assert told.endswith('revision 0 (ETag "0")\n')
        file = someone.write(model={"LocalToAgent": "/m.gguf"})
        declined = await someone.state("set", file, answers="n\n")
        assert declined.status == 1
        assert 'model: "None" -> {"LocalToAgent": "/m.gguf"}' in declined.out
        assert "LOADS A MODEL" in declined.out
        nobody = await someone.state("set", file)
        assert (nobody.status, "--yes" in nobody.err) == (2, True)
        assert (await someone.stored())[1].endswith('revision 0 (ETag "0")\n')
        agreed = await someone.state("set", file, answers="y\n")
        assert (agreed.status, "Revision 1 is stored" in agreed.out) == (0, True)
        again = await someone.state("set", file)
        assert (again.status, again.out) == (0, "Nothing to change: revision 1 says the same.\n")


async def test_a_file_that_is_no_state_is_refused_before_anything_is_asked(operator: Any) -> None:
    async with operator() as someone:
        broken = someone.write(inference_parameters={"top_p": 3})
        ran = await someone.state("set", broken, "--yes")
        assert ran.status == 2
        assert "  inference_parameters.top_p: must be at most 1\n" in ran.err
        missing = await someone.state("set", str(someone.folder / "none.json"), "--yes")
        assert (missing.status, "cannot be read" in missing.err) == (2, True)


async def test_an_editor_gets_a_private_copy_and_another_try_after_a_mistake(operator: Any) -> None:
    async with operator() as someone:
        someone.edits_with('"{"', '"{"', repr(json.dumps(DEFAULT_DESIRED_STATE.document())))
        unchanged = await someone.state("edit", answers="y\n\n")
        assert unchanged.status == 0
        assert unchanged.err.count("is not JSON") == 2
        assert "Nothing was changed." in unchanged.out
        modes = (someone.folder / "modes").read_text(encoding="ascii").split()
        assert modes == ["600"] * 3
        assert someone.left_behind == []
        (someone.folder / "modes").unlink()
        someone.edits_with(HOTTER)
        changed = await someone.state("edit", answers="yes\n")
        assert changed.status == 0
        assert "temperature: 0.8 -> 1.5" in changed.out
        assert (await someone.stored())[0]["inference_parameters"]["temperature"] == 1.5
        assert someone.left_behind == []


async def test_what_was_written_is_kept_when_it_is_not_stored(operator: Any) -> None:
    async with operator() as someone:
        someone.edits_with(HOTTER)
        declined = await someone.state("edit", answers="n\n")
        assert declined.status == 1
        (folder,) = someone.left_behind
        assert f"what you wrote is in {folder / 'desired-state.json'}" in declined.err
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        stored = await someone.state("set", str(folder / "desired-state.json"), "--yes")
        assert stored.status == 0


async def test_what_somebody_else_stored_meanwhile_is_not_overwritten(operator: Any) -> None:
    async with operator() as someone:
        other = someone.write("other.json", served_model_names=["theirs"])
        another = [sys.executable, "-S", "-E", "-c", SET_BY_ANOTHER, someone.address, other]
        someone.edits_with(f'__import__("subprocess").run({another!r}, check=True) and {HOTTER}')
        ran = await someone.state("edit", "--yes")
        assert ran.status == 1
        assert "somebody else stored revision 1 meanwhile; you saw revision 0" in ran.err
        assert f"Run `steersman state set {someone.left_behind[0] / 'desired-state.json'}`" in ran.err
        assert (await someone.stored())[0]["served_model_names"] == ["theirs"]


SET_BY_ANOTHER = """
import http.client, sys
client = http.client.HTTPConnection(sys.argv[1], timeout=10)
client.request("PUT", "/api/v1/balancer_desired_state", open(sys.argv[2], "rb"), {"Content-Type": "application/json"})
sys.exit(client.getresponse().status != 204)
"""


async def test_an_editor_that_fails_or_is_not_there_changes_nothing(
    operator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with operator() as someone:
        for line, status, words in (("false", 1, "ended with 1"), ("no-such-editor", 2, "EDITOR="), ("'", 2, "EDITOR")):
            monkeypatch.setenv("EDITOR", line)
            ran = await someone.state("edit")
            assert (ran.status, words in ran.err) == (status, True), ran
            assert someone.left_behind == []


class StoreWithOutages(InMemoryDesiredStateStore):
    """Nothing can be read or written while `is_away`."""

    is_away = False

    async def load(self) -> StoredState:
        if self.is_away:
            raise StoreUnavailable("the state database does not answer")
        return await super().load()

    async def replace(self, state: BalancerDesiredState, expected_revision: int | None) -> StoredState:
        await self.load()
        return await super().replace(state, expected_revision)


async def test_a_store_that_is_away_is_said_everywhere_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StoreWithOutages()
    async with management_service(store) as service:
        someone = Operator(service.address, tmp_path, monkeypatch)
        store.is_away = True
        file = someone.write(model={"LocalToAgent": "/m.gguf"})
        refused = await someone.state("set", file, "--yes")
        assert refused.status == 1
        assert "nothing was changed, and what is served stays as it was. Look after Redis" in refused.err
        someone.edits_with(HOTTER)
        assert (await someone.state("edit", "--yes")).status == 1
        assert someone.left_behind == []
        assert "perhaps not what is stored" in (await someone.state("get")).err
        status = await run("status", "--management-addr", someone.address)
        assert (status.status, "! The state database does not answer" in status.out) == (1, True)


async def test_a_balancer_that_waits_for_its_redis_names_its_address_and_no_password(operator: Any) -> None:
    async with operator(state_database=f"redis://user:secret@127.0.0.1:{NOBODY}/0") as someone:
        file = someone.write(model={"LocalToAgent": "/m.gguf"})
        rans = [await someone.state("get"), await someone.state("set", file, "--yes")]
        for ran in [*rans, await run("status", "--management-addr", someone.address)]:
            assert ran.status == 1
            said = ran.out + ran.err
            assert f"The state database at redis://127.0.0.1:{NOBODY}" in said
            assert "does not know yet" in said
            assert "secret" not in said
            assert "served" not in said
            assert "ever stored" not in said
