from dataclasses import dataclass

from balancer.core.choose_agent import Preference, choose_agent, preference


@dataclass(frozen=True)
class Agent:
    name: str
    taken: int
    total: int
    last_dispatch: int = 0

    @property
    def preference(self) -> Preference:
        return preference(self.taken, self.total, self.last_dispatch, self.name)


def chosen(*agents: Agent) -> str | None:
    best = choose_agent(agents)
    return None if best is None else best.name


def test_the_smallest_share_of_taken_slots_wins_not_the_smallest_count() -> None:
    assert chosen(Agent("small", 1, 2), Agent("large", 4, 16)) == "large"


def test_equal_shares_go_to_who_was_given_work_least_recently() -> None:
    assert chosen(Agent("a", 1, 2, last_dispatch=7), Agent("b", 2, 4, last_dispatch=3)) == "b"
    assert chosen(Agent("a", 1, 3, last_dispatch=7), Agent("b", 2, 6, last_dispatch=3)) == "b"


def test_then_the_id_decides() -> None:
    assert chosen(Agent("b", 0, 2), Agent("a", 0, 2)) == "a"


def test_no_candidate_no_choice() -> None:
    assert chosen() is None
