"""GET and PUT of the desired state as Paddler's clients know them, with conditions, and without a store."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from balancer.desired_state_store import InMemoryDesiredStateStore, StoredState, StoreUnavailable
from balancer.request_body import BodyLimits
from shared.desired_state import DEFAULT_DESIRED_STATE, BalancerDesiredState
from tests.support.conditions import wait_until
from tests.support.management_service import STATE_PATH, ManagementService, management_service

APPLICABLE_PATH = "/api/v1/balancer_applicable_state"


def document(**changes: object) -> dict[str, Any]:
    """A whole document; `changes` go into the parameters where they have that key."""
    made: dict[str, Any] = {**DEFAULT_DESIRED_STATE.document(), "model": {"LocalToAgent": "/models/tiny.gguf"}}
    parameters = made["inference_parameters"]
    for key, value in changes.items():
        (parameters if key in parameters else made)[key] = value
    return made


class StoreWithOutages(InMemoryDesiredStateStore):
    """Reads and writes fail while `is_away`, writes while `is_full`."""

    is_away = False
    is_full = False

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailable("the state database at redis://10.0.0.5:6379 does not answer")

    async def load(self) -> StoredState:
        self._check()
        return await super().load()

    async def replace(self, state: BalancerDesiredState, expected_revision: int | None) -> StoredState:
        self._check()
        if self.is_full:
            raise StoreUnavailable("the disk of /srv/state.json is full", "the disk of the state database is full")
        return await super().replace(state, expected_revision)

    async def restore(self, held: StoredState) -> StoredState:
        self._check()
        return await super().restore(held)


@pytest.fixture
def store() -> StoreWithOutages:
    return StoreWithOutages()


@pytest.fixture
async def service(store: StoreWithOutages) -> AsyncIterator[ManagementService]:
    async with management_service(store, body_limits=BodyLimits(max_bytes=400_000)) as started:
        yield started


async def test_before_anything_was_put_it_is_paddlers_default_at_revision_0(service: ManagementService) -> None:
    answer = await service.get(STATE_PATH)
    assert answer.status == 200
    assert json.loads(answer.body) == DEFAULT_DESIRED_STATE.document()
    assert answer.head.headers["etag"] == '"0"'


async def test_what_is_put_is_what_is_got_and_what_agents_apply(service: ManagementService) -> None:
    put = document(
        temperature=0.7, top_p=1, chat_template_override={"content": "{{ messages }}"}, use_chat_template_override=True
    )
    answer = await service.put_state(put)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.head.headers["etag"] == '"1"'
    got = await service.get(STATE_PATH)
    assert json.loads(got.body) == put
    assert b'"temperature":0.7,' in got.body
    assert list(json.loads(got.body)) == list(DEFAULT_DESIRED_STATE.document())
    assert got.head.headers["etag"] == '"1"'
    applicable = await service.get_json(APPLICABLE_PATH)
    assert list(applicable) == ["chat_template_override", "inference_parameters", "model", "multimodal_projection"]
    assert applicable == {key: put[key] for key in applicable}
    assert [revision for revision, _ in service.switchboard.told] == [0, 1]


async def test_a_put_replaces_in_full(service: ManagementService) -> None:
    adapters = {"poet": {"LocalToAgent": "/a/poet.gguf"}}
    await service.put_state(document(served_model_names=["small"], lora_adapters=adapters))
    shown = await service.get_json(STATE_PATH)
    assert (shown["served_model_names"], shown["lora_adapters"]) == (["small"], adapters)
    assert (await service.get_json(APPLICABLE_PATH))["lora_adapters"] == adapters
    await service.put_state(document())
    assert await service.get_json(STATE_PATH) == document()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"n_batch": 0}, "inference_parameters.n_batch: must be at least 1"),
        ({"context_size": 63}, "inference_parameters.context_size: must be at least 64"),
        ({"image_resize_to_fit": 0}, "image_resize_to_fit must be greater than zero"),
        ({"embedding_batch_size": 0}, "embedding_batch_size must be greater than zero"),
        ({"n_batch": "5"}, "inference_parameters.n_batch: must be an integer"),
        ({"wrong": 1}, "wrong: is not a known field"),
        (
            {"n_batch": 0, "wrong": 1, "top_p": 2.0},
            "inference_parameters.n_batch: must be at least 1\n"
            "inference_parameters.top_p: must be at most 1\n"
            "wrong: is not a known field",
        ),
        (
            {"chat_template_override": {"content": "{{ broken"}},
            "chat_template_override.content: does not compile: unexpected end of template, "
            "expected 'end of print statement'. (line 1)",
        ),
    ],
)
async def test_what_cannot_be_right_is_refused_in_words_and_changes_nothing(
    service: ManagementService, changes: dict[str, object], text: str
) -> None:
    answer = await service.put_state(document(**changes))
    assert (answer.status, answer.text) == (400, text)
    assert answer.head.headers["content-type"] == "text/plain; charset=utf-8"
    assert (await service.get(STATE_PATH)).head.headers["etag"] == '"0"'


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"inference_parameters": NaN}', "application/json", 400),
        (b"[" * 2000, "application/json", 400),
        (b"{}", "text/plain", 400),
        (b"{" + b" " * 400_000 + b"}", "application/json", 413),
    ],
)
async def test_what_is_no_document_is_refused(
    service: ManagementService, body: bytes, content_type: str, status: int
) -> None:
    answer = await service.ask("PUT", STATE_PATH, body, {"Content-Type": content_type})
    assert answer.status == status
    assert answer.text


async def test_a_put_that_names_the_revision_it_saw_is_taken_only_then(service: ManagementService) -> None:
    assert (await service.put_state(document(top_k=1), If_Match='"0"')).status == 204
    late = await service.put_state(document(top_k=2), If_Match='"0"')
    assert late.status == 412
    assert late.head.headers["etag"] == '"1"'
    assert (await service.get_json(STATE_PATH)) == document(top_k=1)
    for condition in ('W/"1"', "1", '"abc"', '"10"'):
        assert (await service.put_state(document(), If_Match=condition)).status == 412, condition
    assert (await service.put_state(document(), If_Match='"7", "1"')).status == 204
    assert (await service.put_state(document(), If_Match="*")).status == 204


async def test_of_many_that_saw_the_same_revision_one_is_taken(service: ManagementService) -> None:
    answers = await asyncio.gather(*(service.put_state(document(top_k=k), If_Match='"0"') for k in range(8)))
    assert sorted(answer.status for answer in answers) == [204] + [412] * 7


async def test_a_get_that_knows_the_revision_gets_no_body(service: ManagementService) -> None:
    await service.put_state(document())
    for condition in ('"1"', 'W/"1"', '"0", "1"', "*"):
        answer = await service.get(STATE_PATH, If_None_Match=condition)
        assert (answer.status, answer.body) == (304, b""), condition
    assert (await service.get(STATE_PATH, If_None_Match='"0"')).status == 200


async def test_while_the_store_is_away_a_put_is_503_and_a_get_is_what_serves(
    service: ManagementService, store: StoreWithOutages
) -> None:
    await service.put_state(document(top_k=1))
    store.is_away = True
    for condition in ({}, {"If_Match": '"1"'}):
        answer = await service.put_state(document(top_k=2), **condition)
        assert (answer.status, answer.head.headers["retry-after"]) == (503, "5")
        assert answer.text == "the state database does not answer; nothing was changed"
    got = await service.get(STATE_PATH)
    assert (got.status, json.loads(got.body)) == (200, document(top_k=1))
    assert got.head.headers["warning"].startswith("110 ")
    assert service.switchboard.told[-1][0] == 1
    store.is_away = False
    assert "warning" not in (await service.get(STATE_PATH)).head.headers
    assert await service.get_json(STATE_PATH) == document(top_k=1)
    assert (await service.put_state(document(top_k=2), If_Match='"1"')).status == 204


async def test_a_full_disk_is_503_in_its_own_words_and_everything_else_goes_on(
    service: ManagementService, store: StoreWithOutages
) -> None:
    await service.put_state(document(top_k=1))
    store.is_full = True
    answer = await service.put_state(document(top_k=2))
    assert (answer.status, answer.head.headers["retry-after"]) == (503, "5")
    assert answer.text == "the disk of the state database is full; nothing was changed"
    assert await service.get_json(STATE_PATH) == document(top_k=1)
    store.is_full = False
    assert (await service.put_state(document(top_k=2), If_Match='"1"')).status == 204


async def test_before_the_store_has_ever_answered_nothing_is_known(store: StoreWithOutages) -> None:
    store.is_away = True
    async with management_service(store, waits_for_state=False) as service:
        got = await service.get(STATE_PATH)
        assert got.status == 503
        assert "10.0.0.5" not in got.text
        assert await service.get_json(APPLICABLE_PATH) is None
        ready = await service.get("/ready")
        assert ready.status == 503
        assert "state database" in json.loads(ready.body)["reason"]
        store.is_away = False
        await wait_until(lambda: service.watch.current is not None)
        assert (await service.get_json(APPLICABLE_PATH))["model"] == "None"


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", STATE_PATH), ("DELETE", STATE_PATH), ("PUT", APPLICABLE_PATH), ("GET", STATE_PATH + "/")],
)
async def test_other_methods_and_paths_are_404_without_a_body(
    service: ManagementService, method: str, path: str
) -> None:
    answer = await service.ask(method, path)
    assert (answer.status, answer.body) == (404, b"")
