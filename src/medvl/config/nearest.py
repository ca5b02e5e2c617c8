"""Near matches for a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Known names that look like `name`, best first; empty when none is close."""
    return difflib.get_close_matches(name, sorted(known), n=limit, cutoff=0.5)


def or_what(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: near matches, or else everything that is known.

    Returns:
        `; did you mean r, alpha?` or `; known: a, b, c`.
    """
    names = sorted(known)
    close = nearest(name, names)
    if close:
        return f"; did you mean {', '.join(close)}?"
    return f"; known: {', '.join(names)}" if names else ""
