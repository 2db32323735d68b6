"""The file store against a real disk: atomic, locked, and never a writer of what it cannot read."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from balancer import desired_state_file
from balancer.desired_state_file import FileDesiredStateStore
from balancer.desired_state_store import NEVER_STORED, StoredState, StoreRefused, StoreUnavailable
from shared.desired_state import DEFAULT_DESIRED_STATE, BalancerDesiredState, LocalToAgentSource


def state_with(path: str) -> BalancerDesiredState:
    return DEFAULT_DESIRED_STATE.model_copy(update={"model": LocalToAgentSource(LocalToAgent=path)})


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[FileDesiredStateStore]:
    store = await FileDesiredStateStore.open(str(path))
    try:
        yield store
    finally:
        await store.aclose()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


async def test_a_missing_file_stays_missing_until_something_is_stored(path: Path) -> None:
    async with opened(path) as store:
        assert await store.load() == NEVER_STORED
        assert not path.exists()
        await store.replace(state_with("/a"), None)
    document = json.loads(path.read_text())
    assert document == {"balancer_desired_state": state_with("/a").document(), "version": "1", "revision": 1}


async def test_a_file_of_paddler_is_taken_over(path: Path) -> None:
    path.write_text(json.dumps({"balancer_desired_state": state_with("/a").document(), "version": "1"}))
    async with opened(path) as store:
        assert await store.load() == StoredState(1, state_with("/a"))
        assert (await store.replace(state_with("/b"), 1)).revision == 2


@pytest.mark.parametrize("content", [b"{", b'{"balancer_desired_state": {}, "version": "1"}', b'{"version": "9"}'])
async def test_a_file_that_cannot_be_read_refuses_the_start_and_is_not_touched(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    before = path.stat()
    with pytest.raises(StoreRefused, match="The file was not touched") as refused:
        await FileDesiredStateStore.open(str(path))
    assert str(path) in str(refused.value)
    assert path.read_bytes() == content
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    path.unlink()
    async with opened(path):  # the lock was given back
        pass


async def test_a_file_broken_while_it_runs_is_not_overwritten(path: Path) -> None:
    async with opened(path) as store:
        held = await store.replace(state_with("/a"), None)
        path.write_text("{ somebody was here")
        for attempt in (store.load(), store.replace(state_with("/b"), None), store.restore(held)):
            with pytest.raises(StoreUnavailable, match="not valid JSON"):
                await attempt
    assert path.read_text() == "{ somebody was here"


async def test_a_second_balancer_on_the_same_file_is_refused(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path)
    async with opened(path):
        for name in (path, link):
            with pytest.raises(StoreRefused, match="another balancer uses"):
                await FileDesiredStateStore.open(str(name))
    async with opened(link):
        pass


async def test_the_lock_of_a_killed_process_is_gone(path: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX); "
        "print('held', flush=True); time.sleep(600)",
        f"{path}.lock",
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreRefused, match="another balancer uses"):
            await FileDesiredStateStore.open(str(path))
    finally:
        holder.kill()
        await holder.wait()
    async with opened(path):
        pass


async def test_mode_and_link_of_the_file_stay(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path)
    path.touch(mode=0o600)
    path.chmod(0o640)
    async with opened(link) as store:
        await store.replace(state_with("/a"), None)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert json.loads(path.read_text())["revision"] == 1


async def test_a_write_that_fails_leaves_the_old_file_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    async with opened(path) as store:
        held = await store.replace(state_with("/a"), None)
        with monkeypatch.context() as patched:
            patched.setattr("balancer.desired_state_file.os.fsync", no_space)
            with pytest.raises(StoreUnavailable, match=r"the disk of .*/state\.json is full") as refused:
                await store.replace(state_with("/b"), None)
            assert refused.value.for_clients == "the disk of the state database is full"
        assert await store.load() == held
        assert sorted(entry.name for entry in path.parent.iterdir()) == ["state.json", "state.json.lock"]
        assert (await store.replace(state_with("/b"), None)).revision == 2


async def test_a_disk_that_fails_is_named_by_its_reason_but_clients_learn_no_path(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    async with opened(path) as store:
        monkeypatch.setattr("balancer.desired_state_file.os.fsync", broken)
        with pytest.raises(StoreUnavailable, match=r"/state\.json: Input/output error") as refused:
            await store.replace(state_with("/b"), None)
        assert refused.value.for_clients == "the state database cannot be used (Input/output error)"


async def test_what_a_crash_left_behind_does_not_matter(path: Path) -> None:
    (path.parent / ".state.json.new").write_text("half of a docu")
    async with opened(path) as store:
        assert await store.load() == NEVER_STORED
        await store.replace(state_with("/a"), None)
        assert await store.load() == StoredState(1, state_with("/a"))
    assert not (path.parent / ".state.json.new").exists()


async def test_a_reader_never_sees_half_a_file(path: Path) -> None:
    async with opened(path) as store:
        await store.replace(state_with("/0"), None)

        async def write() -> None:
            for index in range(1, 40):
                await store.replace(state_with(f"/{index}" + "x" * 3000), None)

        async with asyncio.TaskGroup() as tasks:
            writer = tasks.create_task(write(), name="writer")
            while not writer.done():
                json.loads(path.read_bytes())
                await asyncio.sleep(0)


async def test_a_caller_that_is_cancelled_does_not_hide_what_was_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_go_on = threading.Event(), threading.Event()
    really = desired_state_file._replace_file

    def slow_disk(name: str, content: bytes) -> None:
        began.set()
        may_go_on.wait(20)
        really(name, content)

    monkeypatch.setattr(desired_state_file, "_replace_file", slow_disk)
    async with opened(path) as store:
        changes = store.wait_changes()
        await anext(changes)
        writing = asyncio.ensure_future(store.replace(state_with("/a"), None))
        await asyncio.to_thread(began.wait, 20)
        writing.cancel()
        await asyncio.wait([writing])
        assert writing.cancelled()
        may_go_on.set()
        async with asyncio.timeout(10):
            assert await anext(changes) == 1
        await changes.aclose()
        assert await store.load() == StoredState(1, state_with("/a"))


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: os.mkfifo(path)], ids=["folder", "pipe"])
async def test_what_is_no_file_is_refused(path: Path, make: object) -> None:
    assert callable(make)
    make(path)
    with pytest.raises(StoreRefused, match=r"directory|not a regular file"):
        await FileDesiredStateStore.open(str(path))


async def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match=r"there is no folder .*/missing for the state file: make it first"):
        await FileDesiredStateStore.open(str(tmp_path / "missing" / "state.json"))
