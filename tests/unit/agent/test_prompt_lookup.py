"""What followed the same tokens last time; longer while it is right, a rest after guesses that were all wrong."""

from hypothesis import given
from hypothesis import strategies as st

from agent.core.prompt_lookup import KEY_TOKENS, LONGEST_REST, REMEMBERED_TOKENS, PromptLookup


def test_it_names_what_followed_the_same_tokens_the_last_time() -> None:
    lookup = PromptLookup()
    assert list(lookup.guess([1, 2, 3, 4, 9, 1, 2, 3, 5, 6, 7, 1, 2, 3], 9)) == [5, 6]
    assert list(lookup.guess([1, 2, 3, 4, 9, 1, 2, 3, 5, 6, 7, 1, 2, 3], 1)) == [5]


def test_what_stood_nowhere_before_is_not_guessed() -> None:
    lookup = PromptLookup()
    for tokens in ([], [1], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 2, 3, 1]):
        assert not lookup.guess(tokens, 9)


def test_a_guess_doubles_while_it_is_right_and_shrinks_to_what_was_right() -> None:
    lookup = PromptLookup()
    tokens = [*range(40), 0, 1, 2]
    lengths = []
    for right in (2, 4, 8, 3, 1):
        guess = lookup.guess(tokens, 30)
        lengths.append(len(guess))
        lookup.judge(len(guess), right)
        tokens += guess[:right]
    assert lengths == [2, 4, 8, 16, 3]


def test_after_each_guess_that_was_all_wrong_it_rests_twice_as_long() -> None:
    lookup = PromptLookup()
    tokens = [1, 2, 3, 4, 1, 2, 3]
    rests = []
    for _ in range(9):
        rest = 0
        while not lookup.guess(tokens, 9):
            rest += 1
        rests.append(rest)
        lookup.judge(1, 0)
    assert rests == [0, 1, 2, 4, 8, 16, LONGEST_REST, LONGEST_REST, LONGEST_REST]
    while not lookup.guess(tokens, 9):
        pass
    lookup.judge(1, 1)  # one that is right ends that
    lookup.judge(1, 0)
    assert [bool(lookup.guess(tokens, 9)) for _ in range(2)] == [False, True]


def test_what_repeats_itself_is_guessed_to_go_on_so() -> None:
    for period in (1, 2, 5):
        lookup = PromptLookup()
        tokens = [*range(100, 120), *[place % period for place in range(3 * period + 2)]]
        lengths = []
        for _ in range(4):
            guess = list(lookup.guess(tokens, 12))
            lookup.judge(len(guess), len(guess))
            tokens += guess
            lengths.append(len(guess))
        assert lengths == [2, 4, 8, 12]
        assert tokens[20:] == [place % period for place in range(len(tokens) - 20)]


def test_what_stood_there_last_is_remembered_longest() -> None:
    lookup = PromptLookup()
    tokens = [1, 2, 3, 4, *range(10_000, 10_000 + REMEMBERED_TOKENS - 100), 1, 2, 3, 4, *range(20_000, 20_200), 1, 2, 3]
    for known in range(len(tokens)):
        lookup.guess(tokens[:known], 1)
    assert list(lookup.guess(tokens, 1)) == [4]


def test_it_forgets_what_lies_far_behind_and_stays_small() -> None:
    lookup = PromptLookup()
    tokens = [*range(10_000, 10_010), *range(2 * REMEMBERED_TOKENS)]
    assert not lookup.guess([*tokens, *range(10_000, 10_000 + KEY_TOKENS)], 9)
    for more in range(5):
        tokens += range(20_000 + 1_000 * more, 21_000 + 1_000 * more)
        lookup.guess(tokens, 9)
    assert len(lookup._after) == REMEMBERED_TOKENS
    assert list(lookup.guess([*tokens, *tokens[-100:-97]], 2)) == tokens[-97:-95]


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 20))
def test_a_guess_always_follows_the_same_tokens_somewhere_before(tokens: list[int], most: int) -> None:
    lookup = PromptLookup()
    for known in range(len(tokens) + 1):
        guess = list(lookup.guess(tokens[:known], most))
        assert len(guess) <= most
        key = tokens[known - KEY_TOKENS : known]
        places = [at for at in range(KEY_TOKENS, known) if known > KEY_TOKENS and tokens[at - KEY_TOKENS : at] == key]
        assert bool(guess) == bool(places)
        if guess:
            period = tokens[places[-1] : known]
            assert guess == (2 * period)[: min(2, most)]
