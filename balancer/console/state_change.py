"""What a new desired state changes, and what that costs. Pure: two states in, sentences out."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pydantic import ValidationError

from balancer.console.errors import WrongUsage
from balancer.console.fleet_snapshot import Fleet
from balancer.console.text import clipped, counted, escaped_json, printable, wrapped
from balancer.validation_sentences import fault_sentences
from shared.chat_template_check import compile_fault
from shared.desired_state import BalancerDesiredState
from shared.state_distance import Need, differs_only_in_sampling, what_is_needed

_MOST_VALUE_COLUMNS: Final = 60
_ABSENT: Final = object()

SWAP: Final = (
    "RELOADS THE MODEL: each agent checks it while the old one serves, lets its requests end and loads it. At least "
    "half of the slots go on serving meanwhile; waiting requests stay in the room."
)
_COSTS: Final = {
    Need.UNLOAD: "UNLOADS THE MODEL: running requests end, then nothing serves.",
    Need.RELOAD: SWAP,
}
TEMPLATE: Final = "Reloads nothing: agents check the template and the projection first, then use them for new requests."
SAMPLING: Final = "Reloads nothing: it changes sampling only, from the next request on."
UNUSED: Final = "Reloads nothing: agents do the same as before."
FIRST_LOAD: Final = "LOADS A MODEL: nothing serves until the agents have loaded it."
UNCERTAIN: Final = (
    "MAY RELOAD THE MODEL: agents serve another revision than the stored one, and decide by what they serve. At least "
    "half of the slots go on serving meanwhile."
)


class Serves(Enum):
    """What the fleet serves while somebody asks what a change costs."""

    NOTHING = "nothing"
    STORED = "stored"  # the revision that is replaced
    OTHER = "other"  # another one, or several


def what_serves(fleet: Fleet, revision: int) -> Serves:
    """Beside the stored `revision`."""
    if not any(agent.serves for agent in fleet.agents):
        return Serves.NOTHING
    return Serves.STORED if fleet.serving_revisions == [revision] else Serves.OTHER


@dataclass(frozen=True, slots=True)
class Change:
    """`name`: as in `inference_parameters.top_k`; values as JSON, cut to a line, or None where it is absent."""

    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.before or 'absent'} -> {self.after or 'absent'}"


def read_state(text: str, name: str) -> BalancerDesiredState:
    """A document of `name` as the balancer would take it. Raises WrongUsage with a sentence for each fault."""
    try:
        document = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise WrongUsage(f"{name} is not JSON: {printable(str(error))}") from None
    try:
        state = BalancerDesiredState.model_validate(document)
    except ValidationError as error:
        faults = [f"  {printable(sentence)}" for sentence in fault_sentences(error, BalancerDesiredState)]
        hint = _hint(document)
        raise WrongUsage("\n".join([f"{name} is not a desired state:", *faults, *([hint] if hint else [])])) from None
    if state.chat_template_override is not None:
        fault = compile_fault(state.chat_template_override.content)
        if fault is not None:
            raise WrongUsage(f"{name}: chat_template_override.content does not compile: {printable(fault)}")
    return state


def pretty(state: BalancerDesiredState) -> str:
    """The document for people and for `set`, without anything that a terminal would obey."""
    return escaped_json(json.dumps(state.document(), indent=2, ensure_ascii=False))


def changes(before: BalancerDesiredState, after: BalancerDesiredState) -> list[Change]:
    """Field by field, in the order of the document."""
    return list(_differences("", before.document(), after.document()))


def cost(before: BalancerDesiredState, after: BalancerDesiredState, serves: Serves) -> str:
    """What agents do about it, by the rule that they themselves decide with."""
    old, new = before.for_agents(), after.for_agents()
    if serves is Serves.OTHER:
        return _COSTS[Need.UNLOAD] if new.model == "None" else UNCERTAIN
    serving = None if serves is Serves.NOTHING or old.model == "None" else old
    need = what_is_needed(serving, new)
    if need is Need.RELOAD and serving is None:
        return FIRST_LOAD
    if need is Need.SETTINGS:
        return SAMPLING if differs_only_in_sampling(old, new) else TEMPLATE
    return _COSTS.get(need, UNUSED)


def change_lines(
    before: BalancerDesiredState, after: BalancerDesiredState, revision: int, serves: Serves, width: int = 80
) -> list[str]:
    """What somebody reads before the question."""
    found = changes(before, after)
    heading = f"{counted(len(found), 'change')} to revision {revision}:"
    return [heading, *(f"  {change}" for change in found), *wrapped(cost(before, after, serves), width, "", "")]


def _differences(prefix: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
        name = f"{prefix}{printable(key)}"
        if old == new and type(old) is type(new):
            continue
        if prefix == "" and key in ("inference_parameters", "lora_adapters") and _are_objects(old, new):
            yield from _differences(f"{name}.", old, new)
        else:
            yield Change(name, _shown(old), _shown(new))


def _are_objects(*values: object) -> bool:
    return all(isinstance(value, dict) for value in values)


def _shown(value: object) -> str | None:
    if value is _ABSENT:
        return None
    return clipped(printable(json.dumps(value, ensure_ascii=False)), _MOST_VALUE_COLUMNS)


def _without_repetition(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {printable(twice)[:64]!r} stands twice in one object")
    return found


def _hint(document: Any) -> str | None:
    if isinstance(document, dict) and isinstance(document.get("balancer_desired_state"), dict):
        return "This is a file of the file store: what is wanted here is its balancer_desired_state alone."
    return None
