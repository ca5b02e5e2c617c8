"""When a request is sent again, and after how long."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_ASKED_WAIT_S = 600.0
"""A server that asks for a longer wait (a daily limit, say) is not waited for; the item fails."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how fast a request is sent again.

    Attributes:
        attempts: Most times that a request is sent.
        first_wait_s: Wait before the second attempt; it doubles with each further one.
        longest_wait_s: Most seconds between two attempts, unless the server asks for more.
    """

    attempts: int = 5
    first_wait_s: float = 1.0
    longest_wait_s: float = 30.0

    def wait_s(self, attempt: int, asked_s: float | None) -> float | None:
        """Seconds to wait after a failed attempt.

        Args:
            attempt: Number of attempts made so far, from 1.
            asked_s: What the server asked for; it is never undercut.

        Returns:
            Seconds with jitter, so that many requests do not come back at once; None: do not try again.
        """
        if attempt >= self.attempts or (asked_s is not None and asked_s > LONGEST_ASKED_WAIT_S):
            return None
        if asked_s is not None:
            return asked_s + random.uniform(0, self.first_wait_s)
        return random.uniform(0.5, 1) * min(self.longest_wait_s, self.first_wait_s * 2.0 ** (attempt - 1))


def asked_wait_s(header: str | None, now: datetime | None = None) -> float | None:
    """Read a `Retry-After` header (RFC 9110, 10.2.3): seconds or a date.

    Args:
        header: Its value.
        now: Present time; None takes the clock.

    Returns:
        Seconds from now, 0 for a date that has passed; None when absent or unreadable.
    """
    if header is None:
        return None
    try:
        seconds = float(header)
        return seconds if 0 <= seconds < float("inf") else None
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())
