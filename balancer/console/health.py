"""What is wrong with a fleet and what to do about it, in sentences. Pure: a snapshot in, findings out."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from balancer.console.fleet_snapshot import Agent, Fleet, Issue, Snapshot
from balancer.console.text import counted, seconds
from shared.agent_status import IssueKind

LOOK_AFTER: Final = (
    "Look after Redis (does it run, is --state-database its address?), or the disk of the state file; the balancer "
    "goes on by itself when it answers."
)
HUNG_SECONDS: Final = 30.0  # `--inference-item-timeout`'s default: its requests end with 504 from then on

_EDIT: Final = "`steersman state edit`"
_NEXT_OF_ISSUE: Final[Mapping[str, str]] = {
    IssueKind.MODEL_FILE_DOES_NOT_EXIST: (
        f"Put the file there, or name another with {_EDIT}; the path is one on the agent's host."
    ),
    IssueKind.MODEL_CANNOT_BE_LOADED: (
        f"Read the agent's log; then give it another file, or less context or fewer GPU layers, with {_EDIT}."
    ),
    IssueKind.MULTIMODAL_PROJECTION_CANNOT_BE_LOADED: (
        f'Text works. Set multimodal_projection to "None" with {_EDIT} to clear this.'
    ),
    IssueKind.CHAT_TEMPLATE_DOES_NOT_COMPILE: f"Correct chat_template_override, or switch it off, with {_EDIT}.",
    IssueKind.SLOT_CANNOT_START: "Start the agent again with fewer --slots, or give it more memory.",
}
_NEXT_OF_ANY_ISSUE: Final = "Read the agent's log."
# The model serves; it only has no template of its own.
_NOTES: Final = frozenset({IssueKind.UNABLE_TO_FIND_CHAT_TEMPLATE.value})


_SWAP_WORDS: Final = {
    "proving": "looking at the model before it is loaded",
    "draining": "letting requests end before it changes the model",
    "loading": "loading a model",
    "settling": "going back to the model before",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """`is_problem`: somebody has to do something; else it is good to know."""

    sentence: str
    next_step: str = ""
    is_problem: bool = True


def findings(snapshot: Snapshot) -> list[Finding]:
    """Problems first, the fleet's before the agents'. What several agents have in common is said once."""
    agents: dict[Finding, list[Agent]] = {}
    for agent in snapshot.fleet.agents:
        for finding in _of_agent(agent):
            agents.setdefault(finding, []).append(agent)
    found = [*_of_balancer(snapshot), *_of_fleet(snapshot)]
    found += [replace(finding, sentence=f"{_names(who)}: {finding.sentence}") for finding, who in agents.items()]
    return sorted(found, key=lambda finding: not finding.is_problem)


def is_healthy(found: list[Finding]) -> bool:
    """Whether nobody has to do anything."""
    return not any(finding.is_problem for finding in found)


def _of_balancer(snapshot: Snapshot) -> Iterator[Finding]:
    is_ready, reason = snapshot.readiness.ready, snapshot.readiness.reason or "it does not say why"
    if snapshot.is_store_away and _waits_for_state(snapshot):
        yield Finding(f"{store_problem(snapshot.fleet)}, so this balancer does not know yet what to serve.", LOOK_AFTER)
        if not snapshot.fleet.agents:
            yield Finding("No agent is connected.", _start_an_agent(snapshot))
        return
    if not is_ready:
        yield Finding(f"The fleet does not serve: {reason}.", _next_when_not_ready(snapshot))
    if snapshot.is_store_away:
        meanwhile = "requests are served as before, but the" if is_ready else "the"
        can = f"{meanwhile} desired state can be neither read anew nor changed."
        yield Finding(f"{store_problem(snapshot.fleet)}: {can}", LOOK_AFTER)


def store_problem(fleet: Fleet) -> str:
    """The beginning of a sentence: what is wrong with the state database, which is away."""
    problem = fleet.state_database_problem or "the state database does not answer"
    return problem[:1].upper() + problem[1:]


def _waits_for_state(snapshot: Snapshot) -> bool:
    """Whether the balancer has not served by any state yet."""
    return not snapshot.readiness.ready and snapshot.fleet.wanted_revision is None


def _start_an_agent(snapshot: Snapshot) -> str:
    return (
        f"Start one: steersman agent --management-addr {snapshot.address} --slots 4. If it runs already, its log "
        "says why it has no link."
    )


def _next_when_not_ready(snapshot: Snapshot) -> str:
    fleet = snapshot.fleet
    if "shutting down" in snapshot.readiness.reason:
        return "Start it again (systemctl start steersman-balancer), or ask another balancer with --management-addr."
    if "state database" in snapshot.readiness.reason:
        return LOOK_AFTER
    if not fleet.agents:
        return _start_an_agent(snapshot)
    if snapshot.wanted_model == "None":
        return f"Name a model with {_EDIT}."
    if any(agent.issues or agent.peer_version_problem for agent in fleet.agents):
        return "See to the agents below."
    if any(agent.swap_phase for agent in fleet.agents):
        return "Wait for the model to load; `steersman top` shows how far it is."
    return "Read the logs of the balancer and of the agents."


def _of_fleet(snapshot: Snapshot) -> Iterator[Finding]:
    fleet = snapshot.fleet
    is_swapping = any(agent.swap_phase for agent in fleet.agents)
    behind = [agent for agent in fleet.agents if _is_behind(agent, fleet)]
    if behind:
        verb = "has" if len(behind) == 1 else "have"
        sentence = f"{_names(behind)} {verb} not applied revision {fleet.wanted_revision} yet"
        if is_swapping:
            yield Finding(f"{sentence}: agents swap in turns.", is_problem=False)
        else:
            yield Finding(f"{sentence}, and no agent swaps.", "Look again in a few seconds; then read their logs.")
    yield from _of_names(fleet)
    serving = [agent for agent in fleet.agents if agent.serves]
    slots, busy = sum(agent.slots_total for agent in serving), sum(agent.slots_processing for agent in serving)
    if snapshot.requests_waiting and serving and busy >= slots:
        yield Finding(
            f"All {counted(slots, 'slot')} are busy and {counted(snapshot.requests_waiting, 'request')} wait.",
            "Start more agents, or raise --slots where there is memory, if this lasts.",
            is_problem=False,
        )


def _of_names(fleet: Fleet) -> Iterator[Finding]:
    """Nothing depends on names but people."""
    counts = Counter(agent.name for agent in fleet.agents if agent.name)
    for name, count in counts.items():
        if count > 1:
            yield Finding(
                f"{count} agents have the name {name}: answers, logs and figures do not tell them apart.",
                "Give each a --name of its own, unless one of them is a dead one's successor.",
                is_problem=False,
            )


def _is_behind(agent: Agent, fleet: Fleet) -> bool:
    """Without anything that explains it."""
    if agent.swap_phase or agent.issues or agent.draining or agent.peer_version_problem:
        return False
    return bool(fleet.wanted_revision) and agent.applied_revision != fleet.wanted_revision


def _of_agent(agent: Agent) -> Iterator[Finding]:
    """Without its name."""
    yield from dict.fromkeys(_of_issue(issue) for issue in agent.issues)
    if agent.peer_version_problem:
        step = "Upgrade whichever is older, so that both speak one protocol version."
        yield Finding(agent.peer_version_problem, step)
    if agent.last_step_age_seconds is not None and agent.last_step_age_seconds >= HUNG_SECONDS and not agent.swap_phase:
        yield Finding(
            f"its engine has not moved for {seconds(agent.last_step_age_seconds)}.",
            "Its requests end with 504. Restart the agent; its log may say what hangs (often a GPU driver).",
        )
    if agent.serves and agent.slots_total < agent.desired_slots_total and not agent.issues:
        yield Finding(
            f"only {agent.slots_total} of its {agent.desired_slots_total} slots serve.", "Read the agent's log."
        )
    if agent.draining:
        yield Finding("leaving; it ends what it has begun.", is_problem=False)
    elif agent.swap_phase:
        words = _SWAP_WORDS.get(agent.swap_phase, agent.swap_phase)
        meanwhile = "; the old one serves meanwhile" if agent.swap_phase == "proving" and agent.serves else ""
        yield Finding(f"{words}{meanwhile}.", is_problem=False)


def _of_issue(issue: Issue) -> Finding:
    sentence = issue.sentence or issue.kind
    if not issue.sentence and issue.model_path:
        sentence += f" ({issue.model_path})"
    if issue.kind in _NOTES:
        return Finding(sentence, is_problem=False)
    return Finding(sentence, _NEXT_OF_ISSUE.get(issue.kind, _NEXT_OF_ANY_ISSUE))


def _names(agents: list[Agent], most: int = 3) -> str:
    names = [agent.label for agent in agents[:most]]
    if len(agents) > most:
        names.append(f"{len(agents) - most} more")
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
