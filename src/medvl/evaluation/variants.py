"""Items that were asked in several ways: do the answers stay the same, and right?

An invalid or uncommitted answer is wrong and agrees with no other, not even with another of its kind.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from medvl.benchmark.item import LETTERS
from medvl.errors import DataError
from medvl.evaluation.intervals import accuracy_ci
from medvl.evaluation.metrics import accuracy, chance_level
from medvl.evaluation.scored import cluster_codes, correct_array, score_predictions

VARIANT_SCHEMA: dict[str, Any] = {
    "variant": pl.String,
    "item_id": pl.String,
    "rotation": pl.Int64,
    "paraphrase": pl.Int64,
}
"""Columns -> polars types of what says which variant is which: id of the variant, id of its item, by how many positions
its options are moved up, which wording it has. Rotation 0 and paraphrase 0 are the item as it is, its base."""

IS_BASE = (pl.col("rotation") == 0) & (pl.col("paraphrase") == 0)


def score_variants(variants: pl.DataFrame, items: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Score the answers to the variants of some items.

    Args:
        variants: Columns of `VARIANT_SCHEMA`, one row a variant.
        items: The variants as items (columns of `ITEM_SCHEMA`).
        predictions: One prediction a variant (columns of `PREDICTION_SCHEMA`).

    Returns:
        A scored table (see `score_predictions`), a row a variant, with the columns of `VARIANT_SCHEMA` (`item_id` is
        the item's, `variant` its own) and `chosen`: index of the answer among the options of the base, null for an
        invalid or uncommitted one.

    Raises:
        DataError: See `score_predictions`; an item without its base.
    """
    scored = score_predictions(items, predictions).rename({"item_id": "variant"})
    table = scored.join(variants.select(list(VARIANT_SCHEMA)), on="variant", how="left", maintain_order="left")
    without = table.group_by("item_id").agg(IS_BASE.sum().alias("bases")).filter(pl.col("bases") != 1)
    if not without.is_empty():
        raise DataError(
            f"Item {without['item_id'].sort()[0]} needs to be asked as it is exactly once beside its variants, got "
            f"{without.sort('item_id')['bases'][0]} times. Ask its variants again."
        )
    position = pl.col("predicted_letter").replace_strict(list(LETTERS), list(range(len(LETTERS))), default=None)
    index = (position.cast(pl.Int64) + pl.col("rotation")) % pl.col("options").list.len().cast(pl.Int64)
    return table.with_columns(pl.when(~pl.col("is_uncommitted")).then(index).alias("chosen"))


def agreement(rows: pl.DataFrame) -> dict[str, Any] | None:
    """Reduce the answers to the variants of some items.

    Args:
        rows: Rows of a table of `score_variants`, the base of each item among them. Items asked once only say nothing
            of agreement and are left aside.

    Returns:
        None where no item was asked twice. Else

        - `n` (items), `n_asked` (variants), `n_groups`, `invalid_rate`, `uncommitted_rate`, and `chance`, of an answer
          that is guessed once and kept;
        - `base_accuracy`, of the items as they are;
        - `accuracy` over all variants with `ci95`;
        - `all_right` with `all_right_ci95`: share of items answered right in all variants;
        - `consistency` with `consistency_ci95`: share of items with the same answer in all variants;
        - `flip_rate_items`: share of items with any disagreement, 1 - `consistency`;
        - `flip_rate_variants`: share of the variants that are no base whose answer differs from that of their base.
    """
    several = rows.filter(pl.len().over("item_id") > 1)
    if several.is_empty():
        return None
    items = per_item(several)
    base = several.filter(IS_BASE).select("item_id", base_chosen="chosen")
    others = several.filter(~IS_BASE).join(base, on="item_id")
    flips = ~(others["chosen"] == others["base_chosen"]).fill_null(False)
    clusters = cluster_codes(items)
    consistent = items["is_consistent"].to_numpy()
    return {
        "n": items.height,
        "n_asked": several.height,
        "n_groups": int(clusters.max()) + 1,
        "chance": chance_level(items),
        "invalid_rate": float(several["is_invalid"].sum()) / several.height,
        "uncommitted_rate": float(several["is_uncommitted"].sum()) / several.height,
        "base_accuracy": accuracy(several.filter(IS_BASE)),
        "accuracy": accuracy(several),
        "ci95": list(accuracy_ci(correct_array(several), cluster_codes(several))),
        "all_right": float(items["is_all_right"].sum()) / items.height,
        "all_right_ci95": list(accuracy_ci(items["is_all_right"].to_numpy(), clusters)),
        "consistency": float(consistent.mean()),
        "consistency_ci95": list(accuracy_ci(consistent, clusters)),
        "flip_rate_items": float(1.0 - consistent.mean()),
        "flip_rate_variants": float(flips.sum()) / len(flips),
    }


def per_item(rows: pl.DataFrame) -> pl.DataFrame:
    """One row an item, sorted by id: `item_id`, `source`, `group`, `chance`, `is_all_right`, `is_consistent`."""
    return (
        rows.group_by("item_id")
        .agg(
            pl.col("source", "group", "chance").first(),
            pl.col("is_correct").all().alias("is_all_right"),
            ((pl.col("chosen").null_count() == 0) & (pl.col("chosen").n_unique() == 1)).alias("is_consistent"),
        )
        .sort("item_id")
    )
