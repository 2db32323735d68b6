"""Takes each message of a balancer to the one who answers it, and introduces this agent to new ones."""

from collections.abc import Callable
from typing import Protocol

from agent.links import Links
from agent.reconciler import Reconciler
from agent.request_desk import RequestDesk
from agent.status_board import StatusBoard
from shared.messages_from_agent import (
    MAX_METADATA_CHARACTERS,
    MAX_METADATA_ENTRIES,
    ChatTemplateOverride,
    Hello,
    ModelMetadata,
)
from shared.messages_to_agent import (
    Cancel,
    Generate,
    GetChatTemplateOverride,
    GetModelMetadata,
    MessageToAgent,
    SetState,
    Welcome,
)


class Introduction(Protocol):
    """Who this agent is."""

    @property
    def agent_id(self) -> str: ...

    @property
    def name(self) -> str | None: ...


class MessageRouter:
    """What happens on links, told to the parts of the agent."""

    def __init__(
        self,
        introduction: Introduction,
        links: Links,
        desk: RequestDesk,
        reconciler: Reconciler,
        board: StatusBoard,
        on_addresses: Callable[[list[str]], None],
    ) -> None:
        """`on_addresses`: other balancers that can be dialled, as HOST:PORT."""
        self._introduction = introduction
        self._links = links
        self._desk = desk
        self._reconciler = reconciler
        self._board = board
        self._on_addresses = on_addresses

    def hello(self) -> Hello:
        """The first message of a link."""
        who = self._introduction
        return Hello(agent_id=who.agent_id, name=who.name, status=self._board.snapshot())

    def link_up(self, link: int, welcome: Welcome) -> None:
        """A balancer has greeted us. It has a status from the greeting; what changed since follows at once."""
        self._board.heartbeat_interval(welcome.heartbeat_interval_ms / 1000)
        self._board.changed()
        self._on_addresses(welcome.balancer_addresses)

    def link_down(self, link: int) -> None:
        """Nobody waits for this link's members any more."""
        self._desk.link_lost(link)
        self._board.changed()

    def versions_changed(self) -> None:
        """A balancer speaks another protocol version, or does no longer."""
        self._board.changed()

    def received(self, link: int, message: MessageToAgent) -> None:
        """One message of a balancer."""
        match message:
            case Generate():
                self._desk.generate(link, message)
            case Cancel():
                self._desk.cancel(link, message)
            case SetState(revision=revision, state=state):
                giver = self._reconciler.wanted_by
                giver_is_up = giver is not None and self._links.is_up(giver)
                self._reconciler.state_wanted(link, revision, state, giver_is_up=giver_is_up)
            case GetModelMetadata(query=query):
                self._links.send(link, ModelMetadata(query=query, metadata=self._metadata()))
            case GetChatTemplateOverride(query=query):
                self._links.send(link, ChatTemplateOverride(query=query, content=self._override()))
            case Welcome():
                pass  # only ever the first message, which the link itself reads

    def _metadata(self) -> dict[str, str] | None:
        """Metadata of the model that serves; entries beyond the bounds of a message are left out."""
        model = self._reconciler.model
        if model is None:
            return None
        kept: dict[str, str] = {}
        characters = 0
        for key, value in model.metadata.items():
            characters += len(key) + len(value)
            if characters > MAX_METADATA_CHARACTERS or len(kept) >= MAX_METADATA_ENTRIES:
                break
            kept[key] = value
        return kept

    def _override(self) -> str | None:
        serving = self._reconciler.swap.serving
        override = serving.state.chat_template_override if serving else None
        return override.content if override else None
