"""What is wrong with an agent, each issue paired with the event that repairs it.

Two shelves, because they live for different times. *Problems* keep the wanted state from being applied; another
wanted state, or success, takes them away. *Notes* belong to the model that serves (it has no chat template, say) and
leave with it. Nothing is cleared just because it is tried again, so issues do not flicker.
"""

from collections.abc import Iterable

from shared.agent_status import MAX_ISSUES, AgentIssue, IssueKind

_REPAIRED_BY_A_PROOF = frozenset({IssueKind.MODEL_FILE_DOES_NOT_EXIST, IssueKind.CHAT_TEMPLATE_DOES_NOT_COMPILE})


class Issues:
    """The issues of one agent, in the order in which they came up, each at most once."""

    def __init__(self) -> None:
        self._problems: dict[AgentIssue, None] = {}
        self._notes: tuple[AgentIssue, ...] = ()

    def __repr__(self) -> str:
        return f"<Issues {len(self._problems)} problems, {len(self._notes)} notes>"

    def current(self) -> tuple[AgentIssue, ...]:
        """Problems first, then notes; at most MAX_ISSUES."""
        return (*self._problems, *self._notes)[:MAX_ISSUES]

    def raise_problems(self, problems: Iterable[AgentIssue]) -> None:
        """The wanted state, or the one that was to be restored, cannot be applied."""
        self._problems.update(dict.fromkeys(problems))

    def state_replaced(self) -> None:
        """Another state is wanted: what was wrong with the one before is nobody's concern any more."""
        self._problems.clear()

    def proved(self) -> None:
        """Files and template of the wanted state are in order; that it loads is not known yet."""
        self._problems = {problem: None for problem in self._problems if problem.kind not in _REPAIRED_BY_A_PROOF}

    def applied(self, notes: Iterable[AgentIssue]) -> None:
        """The wanted state serves, with these notes."""
        self._problems.clear()
        self._notes = tuple(notes)

    def restored(self, notes: Iterable[AgentIssue]) -> None:
        """The model that served before serves again; the wanted state's problems stay."""
        self._notes = tuple(notes)

    def unloaded(self) -> None:
        """No model serves: notes about one would be about nothing."""
        self._notes = ()


def too_many_slots(slots: int, most: int) -> AgentIssue:
    """One issue for the first slot that is too many, instead of hundreds that say the same."""
    sentence = (
        f"this agent was started with --slots {slots}, but one llama.cpp context runs at most {most} "
        "sequences: start it with fewer"
    )
    return AgentIssue(kind=IssueKind.SLOT_CANNOT_START, detail=sentence, slot_index=most)
