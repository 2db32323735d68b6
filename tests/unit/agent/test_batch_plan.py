"""Sharing a step's rows out: counts only."""

from agent.core.backend import PlannedRun
from agent.core.batch_plan import StepBudget, choose_rows, planned_run
from agent.core.commands import Submit
from agent.core.sequence import MemberSequence, Phase
from shared.generation import SamplingParameters
from tests.support.scripted_backend import GreedySampler


def member(arrival: int, pending: int, *, last_step: int = 0) -> MemberSequence:
    prompt = tuple(range(100, 100 + pending))
    request = Submit(arrival, prompt, 5, SamplingParameters(), 0, arrival)
    sequence = MemberSequence.of(request, GreedySampler())
    sequence.phase, sequence.sequence_id, sequence.last_step = Phase.RUNNING, arrival, last_step
    return sequence


def forced(arrival: int, pending: int, *, last_step: int = 0) -> MemberSequence:
    """A member that generates: one sampled token and those that its constraint forces after it are pending."""
    sequence = member(arrival, 10 + pending, last_step=last_step)
    sequence.evaluated, sequence.newest_tokens = 10, pending
    return sequence


def chosen(members: list[MemberSequence], budget: StepBudget) -> list[tuple[object, int]]:
    return [(sequence.key, rows) for sequence, rows in choose_rows(members, budget).rows]


def test_one_pending_token_goes_before_any_prompt() -> None:
    members = [member(1, 50), member(2, 1), member(3, 1)]
    assert chosen(members, StepBudget(64, 32)) == [(2, 1), (3, 1), (1, 32)]


def test_the_first_prompt_takes_what_is_left_and_the_second_waits_for_a_whole_chunk() -> None:
    members = [member(1, 1), member(2, 20), member(3, 20)]
    assert chosen(members, StepBudget(16, 16)) == [(1, 1), (2, 15)]


def test_short_prompts_fit_behind_each_other() -> None:
    assert chosen([member(1, 6), member(2, 6), member(3, 6)], StepBudget(64, 16)) == [(1, 6), (2, 6)]


def test_prompts_take_larger_chunks_while_nobody_generates_who_would_have_to_wait() -> None:
    budget = StepBudget(64, 8, lone_prompt_rows=32)
    assert chosen([member(1, 50), member(2, 50)], budget) == [(1, 32)]
    assert chosen([member(1, 50), member(2, 1)], budget) == [(2, 1), (1, 8)]


def test_who_waited_longest_goes_first() -> None:
    members = [member(1, 1, last_step=5), member(2, 1, last_step=3), member(3, 1, last_step=4)]
    assert chosen(members, StepBudget(2, 2)) == [(2, 1), (3, 1)]


def test_a_prompt_that_got_nothing_is_told_and_goes_first_when_asked() -> None:
    members = [member(1, 1), member(2, 9)]
    assert choose_rows(members, StepBudget(1, 1)).has_starved_prompt
    later = choose_rows(members, StepBudget(1, 1, prompts_first=True))
    assert [(sequence.key, rows) for sequence, rows in later.rows] == [(2, 1)]
    assert not later.has_starved_prompt


def test_a_prompt_stops_one_token_short_when_no_row_of_logits_is_left() -> None:
    members = [member(1, 1), member(2, 5)]
    assert chosen(members, StepBudget(64, 16, logits_rows=1)) == [(1, 1), (2, 4)]


def test_forced_tokens_go_before_any_prompt_and_beside_its_chunk() -> None:
    members = [member(1, 50), forced(2, 5), member(3, 1)]
    assert chosen(members, StepBudget(64, 32, forced_rows=16)) == [(2, 5), (3, 1), (1, 32)]


def test_everybody_gets_a_row_before_anybody_gets_several() -> None:
    members = [forced(1, 9), forced(2, 9), member(3, 1)]
    assert chosen(members, StepBudget(6, 6, forced_rows=16)) == [(1, 4), (2, 1), (3, 1)]
    assert chosen(members, StepBudget(64, 6, forced_rows=10)) == [(1, 9), (2, 3), (3, 1)]
    assert chosen(members, StepBudget(64, 6)) == [(1, 1), (2, 1), (3, 1)]


def test_a_forced_run_that_is_cut_wants_no_logits() -> None:
    members = [forced(1, 9), member(2, 1), member(3, 1)]
    assert chosen(members, StepBudget(64, 6, forced_rows=4, logits_rows=2)) == [(1, 5), (2, 1)]
    assert planned_run(members[0], 5) == PlannedRun(1, (110, 111, 112, 113, 114), 10, False)


def test_who_had_a_piece_of_his_run_is_still_generating() -> None:
    sequence = forced(1, 9)
    sequence.evaluated += 5
    assert chosen([member(2, 50), sequence], StepBudget(64, 32, forced_rows=16)) == [(1, 4), (2, 32)]


def test_an_answer_that_is_evaluated_again_is_read_like_a_prompt() -> None:
    sequence = forced(1, 9)
    sequence.evaluated = 0
    assert chosen([sequence, member(2, 1)], StepBudget(64, 32, forced_rows=16)) == [(2, 1), (1, 19)]


def test_nothing_pending_chooses_nothing() -> None:
    assert chosen([], StepBudget(8, 8)) == []


def test_only_the_last_pending_token_wants_logits() -> None:
    sequence = member(3, 4)
    assert planned_run(sequence, 3) == PlannedRun(3, (100, 101, 102), 0, False)
    sequence.evaluated = 3
    assert planned_run(sequence, 1) == PlannedRun(3, (103,), 3, True)
