from balancer.core.actions import Action, Dispatch, FailGroup, ForgetMember
from balancer.core.events import ClientLeft, MemberBusy, TimePassed
from balancer.core.story import Story
from shared.failures import Failure, FailureKind
from shared.identifiers import AgentId, GroupId, MemberId

GROUP, OTHER = GroupId(1), GroupId(2)


def test_lines_are_told_with_times_since_the_first() -> None:
    story = Story()
    story.begin("r", GROUP)
    story.record(50.0, ClientLeft(GROUP), [], GROUP)
    story.record(51.25, TimePassed(), [FailGroup(GROUP, Failure(FailureKind.WAITED_TOO_LONG, "too long"))], None)
    assert story.of_request("r") == (
        "+0.000s ClientLeft()",
        "+1.250s TimePassed() -> FailGroup(failure=waited_too_long: too long)",
    )


def test_what_followed_for_others_and_book_keeping_are_left_out() -> None:
    story = Story()
    story.begin("r", GROUP)
    actions: list[Action] = [ForgetMember(GROUP, MemberId(1)), Dispatch(OTHER, MemberId(2), AgentId("a"), 1)]
    story.record(0.0, MemberBusy(MemberId(1), 1), actions, GROUP)
    assert story.of_request("r") == ("+0.000s MemberBusy(member=1, attempt=1)",)


def test_events_about_nobody_without_consequences_are_not_kept() -> None:
    story = Story()
    story.record(0.0, TimePassed(), [], None)
    assert len(story) == 0


def test_it_is_bounded_in_lines_and_in_requests() -> None:
    story = Story(max_lines=10)
    for number in range(100):
        story.begin(f"r{number}", GroupId(number))
        story.record(float(number), ClientLeft(GroupId(number)), [], GroupId(number))
    assert len(story) == 10
    assert story.of_request("r5") is None
    assert story.of_request("r95") == ("+0.000s ClientLeft()",)
    assert len(story.recent(3)) == 3


def test_of_two_requests_with_one_id_the_later_is_told() -> None:
    story = Story()
    for group in (GROUP, OTHER):
        story.begin("same", group)
        story.record(0.0, ClientLeft(group), [FailGroup(group, Failure(FailureKind.INTERNAL, str(group)))], group)
    assert story.of_request("same") == ("+0.000s ClientLeft() -> FailGroup(failure=internal: 2)",)
