"""Rows of tokens that begin alike, laid out as one row that branches: what they share stands there once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PAIRS_PER_TOKEN = 6
"""Attention to this many times the width of a decoder costs as much as its linear layers (about 24 D^2 multiplications
a token against 4 D for each token that it looks at)."""


@dataclass(frozen=True, slots=True)
class Branched:
    """A tree of tokens, each before those that follow it; a token sees itself and those on its way from the root.

    Attributes:
        rows: For each token, a row that it is from.
        depths: Its place in that row, counted from 0.
        ends: Number of the first token behind its subtree: token k is seen by the tokens from k to `ends[k]`, no other.
        paths: Row -> numbers of its tokens, in order.
    """

    rows: list[int]
    depths: list[int]
    ends: list[int]
    paths: dict[int, list[int]]

    def __len__(self) -> int:
        return len(self.rows)


def branch(rows: Mapping[int, list[int]]) -> Branched:
    """Lay rows out as one.

    Args:
        rows: Number of a row -> its token ids, at least one.
    """
    origin: list[int] = []
    depths: list[int] = []
    ends: list[int] = []
    paths: dict[int, list[int]] = {}
    path: list[int] = []  # tokens of the row before
    before: list[int] = []
    for row in sorted(rows, key=rows.__getitem__):  # rows that begin alike stand together
        tokens = rows[row]
        shared = shared_length(before, tokens)
        for token in path[shared:]:
            ends[token] = len(origin)
        new = range(len(origin), len(origin) + len(tokens) - shared)
        path = [*path[:shared], *new]
        origin += [row] * len(new)
        depths += range(shared, len(tokens))
        ends += [0] * len(new)
        paths[row] = path
        before = tokens
    for token in path:
        ends[token] = len(origin)
    return Branched(origin, depths, ends, paths)


def worth_sharing(rows: Mapping[int, list[int]], width: int) -> list[list[int]]:
    """Divide rows that may share a beginning into those that are laid out as one.

    Branches do not see each other but are compared with each other, so many of them next to a short beginning would
    cost more than they save.

    Args:
        rows: Number of a row -> its token ids.
        width: Size of the decoder's hidden states.
    """

    def cost(tokens: int) -> float:
        return tokens * (1 + tokens / (PAIRS_PER_TOKEN * width))

    found: list[list[int]] = []
    size = 0
    before: list[int] = []
    for row in sorted(rows, key=rows.__getitem__):
        tokens = rows[row]
        grown = size + len(tokens) - shared_length(before, tokens)
        if found and cost(grown) <= cost(size) + cost(len(tokens)):
            found[-1].append(row)
            size = grown
        else:
            found.append([row])
            size = len(tokens)
        before = tokens
    return found


def shared_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens that two rows begin with in common."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def alike_in_length(branched: Sequence[Branched], least: float) -> list[list[int]]:
    """Divide branched rows into batches with little to fill up.

    Args:
        branched: Rows.
        least: Share of the longest row of a batch that its shortest has at least, in (0, 1].

    Returns:
        Their numbers, longest first.
    """
    found: list[list[int]] = []
    for number in sorted(range(len(branched)), key=lambda n: -len(branched[n])):
        if found and len(branched[number]) >= least * len(branched[found[-1][0]]):
            found[-1].append(number)
        else:
            found.append([number])
    return found
