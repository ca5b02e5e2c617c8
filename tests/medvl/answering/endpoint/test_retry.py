from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.answering.endpoint.retry import LONGEST_ASKED_WAIT_S, Retry, asked_wait_s

NOW = datetime(2025, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("0", 0.0),
        ("-3", None),
        ("inf", None),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("Sat, 01 Mar 2025 12:00:30 GMT", 30.0),
        ("Sat, 01 Mar 2025 12:00:30 -0000", 30.0),
        ("Sat, 01 Mar 2025 13:00:30 +0100", 30.0),
        ("Sat, 01 Mar 2025 11:59:00 GMT", 0.0),
        ("Sat, 32 Mar 2025 11:59:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header, seconds):
    assert asked_wait_s(header, NOW) == seconds


def test_a_date_is_measured_by_the_clock():
    assert asked_wait_s("Sat, 01 Mar 2025 12:00:30 GMT") == 0.0


@given(st.text())
def test_any_header_is_read_or_passed_over(header):
    seconds = asked_wait_s(header, NOW)
    assert seconds is None or seconds >= 0


def test_waits_double_up_to_the_longest_and_end_with_the_attempts():
    retry = Retry(attempts=5, first_wait_s=1.0, longest_wait_s=3.0)
    for attempt, most in ((1, 1.0), (2, 2.0), (3, 3.0), (4, 3.0)):
        waits = [retry.wait_s(attempt, None) for _ in range(50)]
        assert all(most / 2 <= wait <= most for wait in waits)
        assert len(set(waits)) > 1
    assert retry.wait_s(5, None) is None
    assert retry.wait_s(5, 0.0) is None


def test_the_wait_that_a_server_asks_for_is_never_undercut():
    waits = [Retry(first_wait_s=1.0).wait_s(1, 40.0) for _ in range(50)]
    assert all(40.0 <= wait <= 41.0 for wait in waits)
    assert len(set(waits)) > 1


def test_a_server_that_asks_for_hours_is_not_waited_for():
    assert Retry().wait_s(1, LONGEST_ASKED_WAIT_S + 1) is None
