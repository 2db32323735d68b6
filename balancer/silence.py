"""Finds those who have been silent for too long, by one sweep a second: agents about a member, and readers.

A sweep looks at every stream; noting the time of each item is all that the hot path pays.
"""

from collections.abc import Iterator

from balancer.core import events
from balancer.switchboard_tables import SwitchboardSettings, SwitchboardTables


def silent_members(
    tables: SwitchboardTables, settings: SwitchboardSettings, now: float
) -> Iterator[events.MemberSilent]:
    """Members of whom their agent has said nothing for too long. The cancellation that follows starts it anew."""
    for stream in list(tables.streams.values()):
        if stream.agent_id is None:
            continue
        is_cancelled = stream.is_ended or stream.is_closed
        patience = settings.inference_item_timeout_seconds
        if patience <= 0:
            if not is_cancelled:
                continue
            patience = settings.cancel_patience_seconds
        if now - stream.last_item_at >= patience:
            yield events.MemberSilent(stream.member, stream.attempt)


def stalled_readers(
    tables: SwitchboardTables, settings: SwitchboardSettings, now: float
) -> Iterator[events.ConsumerTooSlow]:
    """Groups with an event that nobody has taken for too long.

    One that the machine has done with (only its last event is still unread) is not its business any more: its
    connection is dropped here.
    """
    for opened in list(tables.open.values()):
        unread = (stream.unread_since for stream in opened.streams if stream.unread_since is not None)
        oldest = min(unread, default=now)
        if now - oldest < settings.reader_patience_seconds:
            continue
        if opened.is_ended:
            opened.abort()
        else:
            yield events.ConsumerTooSlow(opened.group)
