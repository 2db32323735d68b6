"""Tells any number of watchers that something changed, without a queue: who is slow sees the newest, once."""

import asyncio


class ChangeSignal:
    """`version` grows with every change. Used from one event loop."""

    def __init__(self) -> None:
        self.version = 0
        self._changed: asyncio.Future[None] | None = None

    def bump(self) -> None:
        """Something changed. Cheap when nobody waits."""
        self.version += 1
        if self._changed is not None:
            if not self._changed.done():
                self._changed.set_result(None)
            self._changed = None

    async def wait_changed(self, seen_version: int) -> int:
        """Wait until the version is not the one seen; returns it. Cancelling a waiter disturbs no other."""
        while self.version == seen_version:
            if self._changed is None:
                self._changed = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._changed)
        return self.version
