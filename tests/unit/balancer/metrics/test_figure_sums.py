"""Sums over agents that come, go and start again: they only grow, and nothing counts twice."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancer.metrics import figure_sums
from balancer.metrics.figure_sums import MAX_LABELS, MAX_REMEMBERED_AGENTS, OTHER, FigureSums
from tests.support.agent_figures import figures


def steps(sums: FigureSums) -> int:
    return sums.statistics().fleet.counters["steps_total"]


def test_the_work_of_two_agents_is_added_up() -> None:
    sums = FigureSums()
    sums.heard("a", None, figures())
    sums.heard("b", None, figures("q"))
    sums.heard("a", None, figures(steps=3, generated_tokens_total=7))
    sums.heard("b", None, figures("q", steps=4))
    sums.heard("a", None, figures(steps=5, generated_tokens_total=7))
    assert steps(sums) == 9
    assert sums.statistics().fleet.counters["generated_tokens_total"] == 7


def test_what_an_agent_did_before_it_was_known_is_not_added() -> None:
    sums = FigureSums()
    sums.heard("a", None, figures(steps=1000, step_seconds=(1.0,)))
    assert steps(sums) == 0
    sums.heard("a", None, figures(steps=1001, step_seconds=(1.0, 0.5)))
    assert steps(sums) == 1
    observed = sums.statistics().fleet.histograms["step_seconds"]
    assert (sum(observed.counts), observed.total) == (1, 0.5)


def test_a_link_that_broke_changes_nothing() -> None:
    sums = FigureSums()
    sums.heard("a", None, figures(steps=10))
    sums.heard("a", None, figures(steps=20))
    sums.heard("a", None, figures(steps=25))  # the greeting of a new link: five steps were done without one
    assert steps(sums) == 15


def test_another_process_under_the_same_id_begins_at_zero_and_the_sum_goes_on() -> None:
    sums = FigureSums()
    sums.heard("a", None, figures("first", steps=10))
    sums.heard("a", None, figures("first", steps=30, step_seconds=(0.5,)))
    sums.heard("a", None, figures("second", steps=4, step_seconds=(0.25,)))
    assert steps(sums) == 24
    assert sums.statistics().fleet.histograms["step_seconds"].total == 0.75


def test_a_figure_that_falls_although_it_may_not_takes_nothing_away() -> None:
    sums = FigureSums()
    sums.heard("a", None, figures(steps=0))
    sums.heard("a", None, figures(steps=10, step_seconds=(1.0,)))
    sums.heard("a", None, figures(steps=2))
    assert steps(sums) == 10
    observed = sums.statistics().fleet.histograms["step_seconds"]
    assert (sum(observed.counts), observed.total) == (1, 1.0)


def test_observations_stay_in_their_buckets() -> None:
    sums = FigureSums()
    sums.heard("a", None, figures())
    sums.heard("a", None, figures(step_seconds=(0.0005, 0.02, 100.0)))
    sums.heard("a", None, figures(step_seconds=(0.0005, 0.02, 0.02, 100.0)))
    counts = sums.statistics().fleet.histograms["step_seconds"].counts
    assert (counts[0], counts[4], counts[-1], sum(counts)) == (1, 2, 1, 4)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 50)), max_size=30))
def test_no_sum_ever_falls(said: list[tuple[str, str, int]]) -> None:
    sums = FigureSums(by_agent=True)
    before = 0
    for agent, process, count in said:
        sums.heard(agent, None, figures(process, steps=count))
        assert steps(sums) >= before
        before = steps(sums)
        assert sum(one.counters["steps_total"] for one in sums.statistics().by_label.values()) == before


def test_series_of_agents_are_by_name_or_else_by_id() -> None:
    sums = FigureSums(by_agent=True)
    for agent_id, name in (("1", "gpu-0"), ("2", None)):
        sums.heard(agent_id, name, figures())
        sums.heard(agent_id, name, figures(steps=int(agent_id)))
    sums.heard("3", "gpu-0", figures("new"))  # the same agent after a restart
    sums.heard("3", "gpu-0", figures("new", steps=10))
    found = {label: one.counters["steps_total"] for label, one in sums.statistics().by_label.items()}
    assert found == {"gpu-0": 11, "2": 2}
    assert (sums.label_of("3", "gpu-0"), sums.label_of("2", None)) == ("gpu-0", "2")


def test_without_being_asked_for_there_are_no_series_of_agents() -> None:
    sums = FigureSums()
    sums.heard("a", "gpu-0", figures())
    assert sums.statistics().by_label == {}


def test_beyond_the_most_labels_agents_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_LABELS == 1000
    monkeypatch.setattr(figure_sums, "MAX_LABELS", 20)
    sums = FigureSums(by_agent=True)
    for number in range(23):
        sums.heard(str(number), None, figures())
        sums.heard(str(number), None, figures(steps=1))
    by_label = sums.statistics().by_label
    assert len(by_label) == 21
    assert by_label[OTHER].counters["steps_total"] == 3
    assert sums.label_of("20", None) == OTHER


def test_agents_that_were_not_heard_for_the_longest_are_forgotten() -> None:
    sums = FigureSums()
    one = figures()
    for number in range(MAX_REMEMBERED_AGENTS + 1):
        sums.heard(str(number), None, one)
    sums.heard("0", None, figures(steps=5))  # forgotten: new again, and "1" goes for it
    assert steps(sums) == 0
    sums.heard("2", None, figures(steps=5))
    assert steps(sums) == 5
    sums.heard("new", None, one)  # "3" goes, for "2" was heard a moment ago
    sums.heard("2", None, figures(steps=6))
    assert steps(sums) == 6
    sums.heard("3", None, figures(steps=5))
    assert steps(sums) == 6


@pytest.mark.parametrize("by_agent", [False, True])
def test_a_copy_does_not_change(by_agent: bool) -> None:
    sums = FigureSums(by_agent=by_agent)
    sums.heard("a", None, figures())
    before = sums.statistics()
    sums.heard("a", None, figures(steps=1, step_seconds=(1.0,)))
    assert before.fleet.counters["steps_total"] == 0
    assert before.fleet.histograms["step_seconds"].total == 0.0
    assert all(one.counters["steps_total"] == 0 for one in before.by_label.values())
