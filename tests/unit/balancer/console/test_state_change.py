"""What a new state changes and costs; and what is no state at all."""

import json
from typing import Any

import pytest

from balancer.console import state_change
from balancer.console.errors import WrongUsage
from balancer.console.state_change import Serves, change_lines, changes, cost, pretty, read_state, what_serves
from shared.desired_state import DEFAULT_DESIRED_STATE, BalancerDesiredState
from tests.support.console_snapshots import fleet
from tests.support.fleet_snapshots import Agent, status

MODEL: dict[str, Any] = {"model": {"LocalToAgent": "/a.gguf"}}


def state(**fields: Any) -> BalancerDesiredState:
    parameters = fields.pop("parameters", {})
    document = {**DEFAULT_DESIRED_STATE.document(), **MODEL, **fields}
    document["inference_parameters"] = {**document["inference_parameters"], **parameters}
    return BalancerDesiredState.model_validate(document)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (state(), state_change.UNUSED),
        (state(served_model_names=["a"]), state_change.UNUSED),
        (state(parameters={"temperature": 0.1}), state_change.SAMPLING),
        (state(chat_template_override={"content": "x"}), state_change.UNUSED),  # it is not switched on
        (state(chat_template_override={"content": "x"}, use_chat_template_override=True), state_change.TEMPLATE),
        (state(parameters={"context_size": 4096}), state_change.SWAP),
        (state(model={"LocalToAgent": "/b.gguf"}), state_change.SWAP),
        (state(lora_adapters={"poet": {"LocalToAgent": "/p.gguf"}}), state_change.SWAP),
    ],
)
def test_what_a_change_costs(after: BalancerDesiredState, expected: str) -> None:
    assert cost(state(), after, Serves.STORED) == expected


def test_the_first_model_and_no_model() -> None:
    none = state(model="None")
    assert cost(none, state(), Serves.NOTHING) == state_change.FIRST_LOAD
    assert cost(state(), none, Serves.STORED).startswith("UNLOADS")
    assert cost(none, state(model="None", parameters={"top_k": 1}), Serves.NOTHING) == state_change.UNUSED


@pytest.mark.parametrize("after", [state(parameters={"top_k": 1}), state(model={"LocalToAgent": "/b.gguf"})])
def test_what_was_stored_but_never_loaded_serves_nothing_meanwhile(after: BalancerDesiredState) -> None:
    assert cost(state(), after, Serves.NOTHING) == state_change.FIRST_LOAD
    assert cost(state(), state(model="None"), Serves.NOTHING) == state_change.UNUSED


def test_what_is_compared_with_another_revision_than_the_stored_one_is_uncertain() -> None:
    assert cost(state(), state(parameters={"top_k": 1}), Serves.OTHER) == state_change.UNCERTAIN
    assert cost(state(model="None"), state(), Serves.OTHER) == state_change.UNCERTAIN
    assert cost(state(), state(model="None"), Serves.OTHER).startswith("UNLOADS")


def test_what_the_fleet_serves_beside_the_stored_revision() -> None:
    idle = Agent("b", "idle", status(slots_total=0, accepting=False, applied_revision=None))
    assert what_serves(fleet(), 1) is Serves.NOTHING
    assert what_serves(fleet(idle), 1) is Serves.NOTHING
    assert what_serves(fleet(Agent(), idle), 1) is Serves.STORED
    assert what_serves(fleet(Agent()), 2) is Serves.OTHER
    assert what_serves(fleet(Agent(), Agent("c", "c", status(applied_revision=2))), 2) is Serves.OTHER


def test_changes_are_named_field_by_field() -> None:
    after = state(
        parameters={"temperature": 0.1, "top_k": 1}, served_model_names=["a"], model={"LocalToAgent": "/b\x1b"}
    )
    assert [str(change) for change in changes(state(), after)] == [
        "inference_parameters.temperature: 0.8 -> 0.1",
        "inference_parameters.top_k: 80 -> 1",
        'model: {"LocalToAgent": "/a.gguf"} -> {"LocalToAgent": "/b\\u001b"}',
        'served_model_names: absent -> ["a"]',
    ]


def test_adapters_are_named_one_by_one() -> None:
    poet, judge = {"LocalToAgent": "/p"}, {"LocalToAgent": "/j"}
    found = changes(state(lora_adapters={"poet": poet}), state(lora_adapters={"poet": poet, "judge": judge}))
    assert [change.name for change in found] == ["lora_adapters.judge"]


def test_long_values_are_cut() -> None:
    after = state(chat_template_override={"content": "x" * 5000})
    assert all(len(line) < 200 for line in change_lines(state(), after, 7, Serves.STORED))
    assert change_lines(state(), after, 7, Serves.STORED)[0] == "1 change to revision 7:"


def test_a_printed_state_reads_back_as_the_same() -> None:
    given = state(chat_template_override={"content": "\x9bé\n模\x1b"})
    text = pretty(given)
    assert read_state(text, "it") == given
    assert all(line.isprintable() for line in text.split("\n"))


def broken(**fields: Any) -> str:
    return json.dumps({**state().document(), **fields})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "file is not JSON"),
        ("[" * 100_000, "file is not JSON"),
        ('{"model": "None", "model": "None"}', "'model' stands twice"),
        ("[]", "must be an object"),
        (broken(modle=1), "modle: is not a known field"),
        (
            broken(inference_parameters={**state().document()["inference_parameters"], "top_p": 2}),
            "top_p: must be at most",
        ),
        (broken(chat_template_override={"content": "{% if %}"}), "chat_template_override.content does not compile"),
        (
            json.dumps({"balancer_desired_state": state().document(), "version": "1"}),
            "its balancer_desired_state alone",
        ),
    ],
)
def test_what_is_no_state_is_named(text: str, words: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        read_state(text, "file")
    assert words in str(refused.value)
