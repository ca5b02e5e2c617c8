"""Draws the options of a question: distractors and their order, from a generator seeded by the item's id."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from medvl.benchmark.vocabulary import TaskVocabulary
from medvl.errors import DataError


def draw_options(
    answer: str,
    *,
    item_id: str,
    seed: int,
    vocabulary: TaskVocabulary,
    source_answers: Collection[str],
    excluded: Iterable[str],
    option_pool: str,
) -> tuple[tuple[str, ...], int, str]:
    """Options of one question, the index of the right one, and the pool they came from.

    Args:
        answer: Right answer.
        item_id: Seeds the draw together with `seed`, so an item keeps its options whatever else is in the benchmark.
        seed: Seed of the benchmark.
        vocabulary: Vocabulary of the task.
        source_answers: Answers that the item's source gives for the task.
        excluded: Further answers that must not be distractors (true of the picture, or boxed in the same place).
        option_pool: `source` draws from `source_answers` first and fills up from the task; `task` draws from the task.

    Returns:
        (option texts in the order shown, index of the answer, `source` or `task`: the widest pool that was drawn from).

    Raises:
        DataError: When not a single distractor exists.
    """
    rng = item_rng(item_id, seed)
    barred = {answer, *vocabulary.conflicts[answer]}
    for other in excluded:
        barred |= {other, *vocabulary.conflicts.get(other, frozenset())}
    near = [a for a in vocabulary.answers if a in source_answers and a not in barred]
    far = [a for a in vocabulary.answers if a not in barred]
    wanted = vocabulary.num_options - 1
    pool = near if option_pool == "source" else far
    distractors = _draw(rng, pool, wanted, vocabulary)
    if len(distractors) < wanted:
        rest = [a for a in far if a not in distractors]
        distractors = _draw(rng, rest, wanted, vocabulary, distractors)
    if not distractors:
        raise DataError(
            f"item {item_id}: no distractor exists for '{answer}': every other answer of the task is true of the "
            "picture, boxed in the same place, or means the same"
        )
    used = "source" if all(d in source_answers for d in distractors) else "task"
    options = [answer, *distractors]
    order = rng.permutation(len(options))
    return tuple(options[i] for i in order), int(np.flatnonzero(order == 0)[0]), used


def shuffle_options(answer: str, options: Sequence[str], *, item_id: str, seed: int) -> tuple[tuple[str, ...], int]:
    """Given options in an order drawn for the item, and the index of the right one."""
    order = item_rng(item_id, seed).permutation(len(options))
    shuffled = tuple(options[i] for i in order)
    return shuffled, shuffled.index(answer)


def item_rng(item_id: str, seed: int) -> np.random.Generator:
    """Generator for one item: same id and seed, same stream, on any machine."""
    digest = hashlib.sha256(f"{seed}:{item_id}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _draw(
    rng: np.random.Generator,
    pool: Sequence[str],
    wanted: int,
    vocabulary: TaskVocabulary,
    already: Sequence[str] = (),
) -> list[str]:
    """Up to `wanted` distractors, none of which conflicts with another, starting from those `already` drawn."""
    drawn = list(already)
    for index in rng.permutation(len(pool)):
        if len(drawn) >= wanted:
            break
        candidate = pool[index]
        if not any(candidate in vocabulary.conflicts[other] for other in drawn):
            drawn.append(candidate)
    return drawn
