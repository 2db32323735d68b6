"""The account of one request, played by hand: what its routes and its agents would say, when the test says so."""

from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from balancer.generation_request import GenerationRequest, MemberRequest
from balancer.open_group import OpenGroup
from balancer.request_account import RequestAccount, RequestBooks
from balancer.request_record import Endpoint, RequestRecord
from balancer.response_stream import ResponseStream
from shared.failures import Failure
from shared.generation import Channel, FinishReason, Usage
from shared.identifiers import AgentId, GroupId, MemberId
from shared.messages_from_agent import TokenItem


@dataclass
class Notes:
    """An observer that keeps what it hears."""

    began_count: int = 0
    gaps: list[tuple[float, int]] = field(default_factory=list)
    records: list[RequestRecord] = field(default_factory=list)

    def began(self, endpoint: Endpoint) -> None:
        self.began_count += 1

    def tokens_relayed(self, endpoint: Endpoint, gap_seconds: float, tokens: int) -> None:
        self.gaps.append((gap_seconds, tokens))

    def ended(self, record: RequestRecord) -> None:
        self.records.append(record)


@dataclass
class AccountDriver:
    """Books with one observer and a clock that the test moves, and a group of some choices."""

    choices: int = 1
    now: float = 100.0
    notes: Notes = field(default_factory=Notes)
    makes_spans: bool = False

    def __post_init__(self) -> None:
        self.books = RequestBooks((self.notes,), self.makes_spans, clock=lambda: self.now)
        self.streams = tuple(ResponseStream(GroupId(1), MemberId(1 + i), i) for i in range(self.choices))
        members = tuple(MemberRequest(index, 7) for index in range(self.choices))
        wanted = GenerationRequest("r1", "completions", "2+2=", None, 16, members)
        self.group = OpenGroup(GroupId(1), wanted, self.streams, lambda _: None)

    def open(self, **headers: str) -> RequestAccount:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.request = make_mocked_request("POST", "/v1/completions", headers=given)
        return self.books.open(Endpoint.COMPLETIONS, "r1", self.request)

    def run(self, index: int = 0, at: float = 0.0, name: str = "gpu-1") -> None:
        self.streams[index].begin_attempt(1, AgentId("a"), name, at or self.now)

    def accept(self, account: RequestAccount, index: int = 0, prompt_tokens: int = 5) -> None:
        self.run(index)
        self.streams[index].put_accepted(prompt_tokens, self.now)
        self.read(account, index)

    def give(self, account: RequestAccount, tokens: int, index: int = 0) -> None:
        stream = self.streams[index]
        stream.put_item(TokenItem(1, 1, len(stream.token_ids), (5,) * tokens, "x" * tokens, Channel.CONTENT), self.now)
        self.read(account, index)

    def end(
        self,
        account: RequestAccount,
        reason: FinishReason | None = FinishReason.STOP,
        usage: Usage | None = None,
        failure: Failure | None = None,
        index: int = 0,
    ) -> None:
        self.streams[index].end(reason if failure is None else None, usage or Usage(), failure, self.now)
        self.read(account, index)

    def read(self, account: RequestAccount, index: int = 0) -> None:
        account.read(index, self.streams[index].take_nowait())

    @property
    def record(self) -> RequestRecord:
        assert self.notes.began_count == 1
        (record,) = self.notes.records
        return record


def ok() -> web.Response:
    return web.Response(status=200)
