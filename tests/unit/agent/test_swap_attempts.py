"""When a state that failed is tried again."""

from agent.core.swap_attempts import LONGEST_RETRY_SECONDS, Attempts


def test_waits_double_up_to_the_longest() -> None:
    attempts, now, waits = Attempts(), 100.0, []
    for _ in range(8):
        attempts.failed(now, retry=True)
        assert attempts.next_try is not None
        waits.append(attempts.next_try - now)
        assert not attempts.may_try(attempts.next_try - 0.001)
        now = attempts.next_try
        assert attempts.may_try(now)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, LONGEST_RETRY_SECONDS]


def test_what_is_given_up_is_never_tried_until_somebody_asks() -> None:
    attempts = Attempts()
    attempts.failed(0.0, retry=False)
    assert attempts.is_given_up
    assert attempts.next_try is None
    assert not attempts.may_try(1e12)
    attempts.allow_now()
    assert attempts.may_try(0.0)


def test_success_starts_the_count_again() -> None:
    attempts = Attempts()
    for _ in range(5):
        attempts.failed(0.0, retry=True)
    attempts.succeeded()
    attempts.failed(0.0, retry=True)
    assert attempts.next_try == 1.0


def test_a_new_try_is_a_new_chance_for_the_model_before() -> None:
    attempts = Attempts()
    attempts.failed(0.0, retry=True)
    attempts.restore_failed = True
    assert not attempts.may_try(0.5)
    assert attempts.restore_failed
    assert attempts.may_try(1.0)
    assert not attempts.restore_failed
