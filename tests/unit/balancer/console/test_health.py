"""What somebody has to do something about, what is only good to know, and what to do."""

import pytest

from balancer.console.fleet_snapshot import Readiness
from balancer.console.health import Finding, findings, is_healthy
from shared.agent_status import AgentIssue, IssueKind
from tests.support.console_snapshots import snapshot
from tests.support.fleet_snapshots import Agent, status

MISSING = AgentIssue(kind=IssueKind.MODEL_FILE_DOES_NOT_EXIST, model_path="/m.gguf", detail="No file /m.gguf.")

AWAY = "the state database at redis://h:1 does not answer"


def one(found: list[Finding]) -> Finding:
    (finding,) = found
    return finding


def test_a_fleet_that_serves_what_is_wanted_is_healthy_and_says_nothing() -> None:
    found = findings(snapshot(Agent(), Agent("b", "agent-b")))
    assert found == []
    assert is_healthy(found)


def test_without_agents_the_next_step_is_a_command_for_this_balancer() -> None:
    finding = one(findings(snapshot()))
    assert "no agent is connected" in finding.sentence
    assert "steersman agent --management-addr 127.0.0.1:8060" in finding.next_step
    assert not is_healthy([finding])


def test_without_a_model_somebody_has_to_name_one() -> None:
    idle = Agent(status=status(slots_total=0, accepting=False, model_path=None))
    finding = one(findings(snapshot(idle, wanted_model="None")))
    assert "steersman state edit" in finding.next_step


def test_while_the_first_model_loads_one_waits() -> None:
    loading = Agent(status=status(slots_total=0, accepting=False, swap_phase="loading", applied_revision=None))
    problem, note = findings(snapshot(loading))
    assert problem.next_step.startswith("Wait for the model to load")
    assert note.sentence == "agent-a: loading a model."
    assert not note.is_problem


@pytest.mark.parametrize(
    ("slots", "words"), [(4, "; the old one serves meanwhile."), (0, "looking at the model before it is loaded.")]
)
def test_an_old_model_is_spoken_of_only_while_there_is_one(slots: int, words: str) -> None:
    proving = Agent(status=status(slots_total=slots, accepting=slots > 0, swap_phase="proving"))
    assert findings(snapshot(proving))[-1].sentence.endswith(words)


def test_agents_of_one_name_are_a_note_and_the_nameless_are_none() -> None:
    finding = one(findings(snapshot(Agent(), Agent("b"), Agent("c", None), Agent("d", None))))
    assert finding.sentence.startswith("2 agents have the name agent-a: ")
    assert "--name" in finding.next_step
    assert not finding.is_problem


def test_a_balancer_that_shuts_down_is_started_again() -> None:
    readiness = Readiness(ready=False, reason="the balancer is shutting down")
    finding = one(findings(snapshot(Agent(), readiness=readiness)))
    assert "systemctl start steersman-balancer" in finding.next_step


@pytest.mark.parametrize("kind", list(IssueKind))
def test_every_issue_of_an_agent_is_told_and_has_a_next_step_when_it_is_a_problem(kind: IssueKind) -> None:
    issue = AgentIssue(kind=kind, model_path="/m.gguf", detail="What happened.")
    finding = one(findings(snapshot(Agent(status=status(issues=[issue])))))
    assert finding.sentence == "agent-a: What happened."
    assert finding.is_problem == bool(finding.next_step)
    assert finding.is_problem == (kind is not IssueKind.UNABLE_TO_FIND_CHAT_TEMPLATE)


def test_an_issue_without_a_sentence_has_its_kind_and_file() -> None:
    issue = AgentIssue(kind=IssueKind.MODEL_CANNOT_BE_LOADED, model_path="/m.gguf")
    finding = one(findings(snapshot(Agent(status=status(issues=[issue])))))
    assert finding.sentence == "agent-a: ModelCannotBeLoaded (/m.gguf)"


def test_a_state_database_that_is_away_is_a_problem_though_all_serve() -> None:
    finding = one(findings(snapshot(Agent(), is_store_away=True)))
    assert finding.sentence.startswith("The state database does not answer: requests are served as before")
    assert finding.is_problem
    named = one(findings(snapshot(Agent(), is_store_away=True, problem=AWAY)))
    assert named.sentence.startswith("The state database at redis://h:1 does not answer: requests are served")


def test_without_any_state_the_database_comes_first_and_nothing_is_said_to_be_served() -> None:
    cause, agents = findings(snapshot(wanted=None, is_store_away=True, problem=AWAY))
    assert cause.sentence.startswith(
        "The state database at redis://h:1 does not answer, so this balancer does not know"
    )
    assert cause.next_step.startswith("Look after Redis")
    assert "steersman agent" in agents.next_step
    idle = Agent(status=status(slots_total=0, accepting=False, model_path=None, applied_revision=None))
    assert one(findings(snapshot(idle, wanted=None, is_store_away=True))).next_step.startswith("Look after Redis")
    assert one(findings(snapshot(wanted=None))).next_step.startswith("Look after Redis")  # it may just have come back


def test_a_fleet_that_does_not_serve_is_not_said_to_while_the_database_is_away() -> None:
    fleet, database = findings(snapshot(is_store_away=True, problem=AWAY))
    assert "no agent is connected" in fleet.sentence
    assert database.sentence == f"T{AWAY[1:]}: the desired state can be neither read anew nor changed."


def test_agents_that_wait_for_their_turn_are_a_note_while_another_swaps() -> None:
    swapping = Agent("b", "agent-b", status(swap_phase="draining"))
    found = findings(snapshot(Agent(), swapping, wanted=2))
    assert is_healthy(found)
    assert found[0].sentence == "agent-a has not applied revision 2 yet: agents swap in turns."


def test_an_agent_that_is_behind_and_does_nothing_about_it_is_a_problem() -> None:
    finding = one(findings(snapshot(Agent(), wanted=2)))
    assert "no agent swaps" in finding.sentence
    assert finding.is_problem


def test_an_engine_that_hangs_is_a_problem_unless_a_model_loads() -> None:
    assert "has not moved for 31s" in one(findings(snapshot(Agent(status=status(last_step_age_seconds=31.0))))).sentence
    busy = Agent(status=status(last_step_age_seconds=2.0))
    loading = Agent(status=status(last_step_age_seconds=31.0, swap_phase="loading"))
    assert is_healthy(findings(snapshot(busy)))
    assert is_healthy(findings(snapshot(loading)))


def test_another_protocol_version_is_the_balancers_own_sentence() -> None:
    other = Agent(status=status(peer_version_problem="speaks protocol 9"))
    assert one(findings(snapshot(other))).sentence == "agent-a: speaks protocol 9"


def test_slots_that_do_not_serve_are_counted() -> None:
    assert "only 3 of its 4 slots" in one(findings(snapshot(Agent(status=status(slots_total=3))))).sentence


def test_a_full_fleet_with_a_queue_is_a_note() -> None:
    finding = one(findings(snapshot(Agent(slots_processing=4), waiting=3)))
    assert finding.sentence == "All 4 slots are busy and 3 requests wait."
    assert not finding.is_problem
    assert findings(snapshot(Agent(slots_processing=3), waiting=3)) == []


def test_what_many_agents_have_in_common_is_said_once() -> None:
    many = [Agent(str(number), f"gpu-{number}", status(issues=[MISSING, MISSING])) for number in range(9)]
    assert one(findings(snapshot(*many))).sentence == "gpu-0, gpu-1, gpu-2 and 6 more: No file /m.gguf."


def test_problems_come_before_notes() -> None:
    leaving = Agent(status=status(draining=True))
    broken = Agent("b", "agent-b", status(issues=[MISSING]))
    found = findings(snapshot(leaving, broken))
    assert [finding.is_problem for finding in found] == [True, False]


def test_what_an_agent_calls_itself_does_not_draw() -> None:
    nasty = Agent(name="\x1b[2Jgone", status=status(issues=[MISSING]))
    assert one(findings(snapshot(nasty))).sentence.isprintable()
