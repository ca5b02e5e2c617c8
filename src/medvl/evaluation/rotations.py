"""The same items asked in every rotation of their options: is the answer about the picture or about the letter?

Rotation r of k options shows option (p + r) mod k at position p, so that over the k rotations every option stands once
at every letter. Rotation 0 is the order of the benchmark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import logsumexp

from medvl.benchmark.item import LETTERS
from medvl.errors import DataError
from medvl.evaluation.intervals import accuracy_ci
from medvl.evaluation.letter_bias import recall_std
from medvl.evaluation.letter_prior import hits, prior_from_rotations
from medvl.evaluation.option_scores import Scores, normalised, option_scores
from medvl.evaluation.scored import UNCOMMITTED_ABOVE, cluster_codes

ROTATION_SCHEMA: dict[str, Any] = {
    "item_id": pl.String,
    "rotation": pl.Int64,
    "option_logprobs": pl.List(pl.Float64),
    "outside_mass": pl.Float64,
}
"""Column -> polars type of a table of rotations, one row a question asked. The scores are in the order of the letters
as shown; `outside_mass` is null where it is not known."""

_LEAST = 1e-12  # a prior of rounding error only may come out as 0 or below
_ITEM_COLUMNS = ("item_id", "answer_index", "source", "group")


def shown_options(n_options: int, rotation: int) -> list[int]:
    """Indices of the options in the order that a rotation shows them.

    Args:
        n_options: Number of options.
        rotation: 0 to `n_options` - 1.
    """
    return [(position + rotation) % n_options for position in range(n_options)]


def check_rotations(items: pl.DataFrame, rotations: pl.DataFrame) -> None:
    """Refuse a table of rotations that lacks a column or holds items that were not evaluated.

    Raises:
        DataError: See above.
    """
    absent = [column for column in ROTATION_SCHEMA if column not in rotations.columns]
    if absent:
        raise DataError(f"The table of rotations lacks the column(s) {', '.join(absent)}. Answer the rotations again.")
    foreign = rotations.join(items, on="item_id", how="anti")["item_id"].unique().sort().to_list()
    if foreign:
        raise DataError(
            f"{len(foreign)} item(s) were asked in rotations but are not among the evaluated ones "
            f"({', '.join(foreign[:3])}). Score the rotations beside the benchmark and split they were made on."
        )


def rotation_figures(items: pl.DataFrame, rotations: pl.DataFrame) -> dict[str, Any] | None:
    """Reduce answers to all rotations of some items.

    Args:
        items: Rows of one task with `item_id`, `answer_index`, `options`, `source`, `group`.
        rotations: Columns of `ROTATION_SCHEMA`; every rotation of each of its items, in any order. Items that it does
            not hold were not asked; rows of items that are not in `items` are left aside.

    Returns:
        None where no item was asked, or any answer has no option scores. Else

        - `n` (items), `n_asked` (items times rotations), `n_groups`, `uncommitted_rate` over the questions asked;
        - `accuracy` over all questions asked with `ci95`, and `chance`, of an answer that is guessed once and kept;
        - `circular_accuracy` with `circular_ci95`: share of items answered right in all rotations (CircularEval of
          MMBench, Liu et al. 2024, arXiv:2307.06281);
        - `consistency`: share of items with the same option in all rotations;
        - `averaged_accuracy`: of the option with the highest mean probability over rotations;
        - `recall` and `recall_std` by letter over all questions asked;
        - `prior`: number of options -> letter -> probability;
        - `prior_corrected_accuracy`: of rotation 0 after the prior of the other items is divided out; None where an
          item has no fellow with as many options.

        An uncommitted answer is wrong and agrees with no other; in the averaged and the corrected accuracy, which are
        made from scores, it is that of rotation 0 that counts.

    Raises:
        DataError: An item lacks a rotation, has one twice, or a wrong number of scores.
    """
    kept = items.select(*_ITEM_COLUMNS, n_options=pl.col("options").list.len().cast(pl.Int64))
    asked = rotations.select(list(ROTATION_SCHEMA)).join(kept, on="item_id").sort("item_id", "rotation")
    if option_scores(asked) is None:
        return None
    _check_complete(asked)
    parts = [_Part(rows) for _, rows in sorted(asked.group_by("n_options", maintain_order=True), key=lambda p: p[0])]
    rows = pl.concat([part.items for part in parts])
    circular = np.concatenate([part.right.all(axis=1) for part in parts])
    right = np.concatenate([part.right.ravel() for part in parts])
    letter = np.concatenate([part.gold_position.ravel() for part in parts])
    recalls = {LETTERS[i]: float(right[letter == i].mean()) for i in np.unique(letter)}
    corrected = [part.corrected for part in parts]
    clusters = cluster_codes(rows)
    return {
        "n": rows.height,
        "n_asked": asked.height,
        "n_groups": int(clusters.max()) + 1,
        "accuracy": float(right.mean()),
        "ci95": list(accuracy_ci(right, np.repeat(clusters, rows["n_options"].to_numpy()))),
        "circular_accuracy": float(circular.mean()),
        "circular_ci95": list(accuracy_ci(circular, clusters)),
        "chance": float((1.0 / rows["n_options"].to_numpy()).mean()),
        "consistency": float(np.concatenate([part.consistent for part in parts]).mean()),
        "averaged_accuracy": float(np.concatenate([part.averaged for part in parts]).mean()),
        "recall": recalls,
        "recall_std": recall_std(recalls),
        "prior": {str(part.k): dict(zip(LETTERS, part.prior, strict=False)) for part in parts},
        "prior_corrected_accuracy": (
            None
            if any(values is None for values in corrected)
            else float(np.concatenate([values for values in corrected if values is not None]).mean())
        ),
        "uncommitted_rate": float(np.concatenate([part.loose.ravel() for part in parts]).mean()),
    }


class _Part:
    """Answers to items with the same number of options k; arrays are [items, rotations] unless said otherwise."""

    def __init__(self, asked: pl.DataFrame) -> None:
        self.k = int(asked["n_options"][0])
        self.items = asked.filter(pl.col("rotation") == 0)
        n, k = self.items.height, self.k
        scores = option_scores(asked)
        assert scores is not None  # rotation_figures has looked
        logs = normalised(scores.reshape(n, k, k))  # [items, rotations, positions]
        shown = np.array([shown_options(k, rotation) for rotation in range(k)])
        gold = self.items["answer_index"].to_numpy()
        by_option = np.empty_like(logs)  # [items, rotations, options]
        for rotation in range(k):
            by_option[:, rotation, shown[rotation]] = logs[:, rotation]
        outside = asked["outside_mass"].fill_null(0.0).to_numpy().reshape(n, k)
        self.loose: NDArray[np.bool_] = outside > UNCOMMITTED_ABOVE
        chosen = shown[np.arange(k), logs.argmax(axis=2)]
        self.right = (chosen == gold[:, None]) & ~self.loose
        self.gold_position = (gold[:, None] - np.arange(k)) % k
        self.consistent = (chosen == chosen[:, :1]).all(axis=1) & ~self.loose.any(axis=1)
        self.averaged = hits(logsumexp(by_option, axis=1), gold) * ~self.loose[:, 0]
        prior = prior_from_rotations(logs)
        assert prior is not None  # scores are finite
        self.prior = prior.tolist()
        self.corrected = self._corrected(logs, prior, gold)

    def _corrected(self, logs: Scores, prior: Scores, gold: NDArray[np.int64]) -> Scores | None:
        n = len(logs)
        if n == 1:
            return None
        own = np.exp(normalised(logs.mean(axis=1)))
        others = np.maximum((n * prior - own) / (n - 1), _LEAST)
        return hits(logs[:, 0] - np.log(others), gold) * ~self.loose[:, 0]


def _check_complete(asked: pl.DataFrame) -> None:
    wrong = asked.filter(pl.col("option_logprobs").list.len() != pl.col("n_options"))
    if not wrong.is_empty():
        raise DataError(
            f"Item {wrong['item_id'][0]} has {wrong['n_options'][0]} options, but rotation {wrong['rotation'][0]} has "
            f"{len(wrong['option_logprobs'][0])} option scores. Answer its rotations again."
        )
    per_item = asked.group_by("item_id", maintain_order=True).agg("rotation", pl.col("n_options").first())
    for item_id, found, n_options in per_item.iter_rows():
        if found != list(range(n_options)):
            raise DataError(
                f"Item {item_id} needs each of the rotations 0 to {n_options - 1} once, got "
                f"{', '.join(map(str, found))}. Answer its rotations again."
            )
