"""Each issue goes away with the event that repairs it, and with no other."""

import pytest

from agent.core.issues import Issues, too_many_slots
from shared.agent_status import MAX_ISSUES, AgentIssue, IssueKind


def issue(kind: IssueKind, path: str = "/a") -> AgentIssue:
    return AgentIssue(kind=kind, model_path=path)


MISSING = issue(IssueKind.MODEL_FILE_DOES_NOT_EXIST)
UNLOADABLE = issue(IssueKind.MODEL_CANNOT_BE_LOADED)
NOTE = issue(IssueKind.UNABLE_TO_FIND_CHAT_TEMPLATE)


@pytest.fixture
def issues() -> Issues:
    one = Issues()
    one.applied([NOTE])
    one.raise_problems([MISSING, UNLOADABLE])
    return one


def test_problems_come_before_notes_and_each_once(issues: Issues) -> None:
    issues.raise_problems([MISSING])
    assert issues.current() == (MISSING, UNLOADABLE, NOTE)


def test_a_proof_repairs_what_it_looked_at(issues: Issues) -> None:
    issues.proved()
    assert issues.current() == (UNLOADABLE, NOTE)


def test_another_state_takes_its_predecessors_problems_away_and_leaves_the_models_notes(issues: Issues) -> None:
    issues.state_replaced()
    assert issues.current() == (NOTE,)


def test_a_model_that_serves_the_wanted_state_repairs_everything(issues: Issues) -> None:
    issues.applied([])
    assert issues.current() == ()


def test_the_old_model_coming_back_repairs_nothing(issues: Issues) -> None:
    issues.restored([])
    assert issues.current() == (MISSING, UNLOADABLE)


def test_notes_leave_with_their_model(issues: Issues) -> None:
    issues.unloaded()
    assert issues.current() == (MISSING, UNLOADABLE)


def test_there_are_never_more_than_a_status_holds(issues: Issues) -> None:
    issues.raise_problems(issue(IssueKind.MODEL_CANNOT_BE_LOADED, f"/{number}") for number in range(MAX_ISSUES * 2))
    assert len(issues.current()) == MAX_ISSUES


def test_too_many_slots_are_one_issue_on_the_wire() -> None:
    payload = too_many_slots(300, 255).payload()
    assert payload["SlotCannotStart"]["slot_index"] == 255
    assert "300" in payload["SlotCannotStart"]["error"]
