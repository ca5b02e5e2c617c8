"""One question asked in several ways: its options in every rotation, its text in other words.

Rotation r of k options shows option (p + r) mod k at position p, so that over the k rotations every option stands once
at every letter. Rotation 0 and paraphrase 0 are the item as it is, the base that its other variants are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from medvl.batching.option_order import is_bound_to_its_order
from medvl.benchmark.item import Item
from medvl.benchmark.paraphrases import wordings


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of asking an item.

    Attributes:
        item: What is asked: an item of its own, the base itself for rotation 0 and paraphrase 0.
        base_id: Id of the item that it is a variant of.
        rotation: By how many positions its options are moved up.
        paraphrase: Which wording of the question it has; 0 is the item's own.
    """

    item: Item
    base_id: str
    rotation: int
    paraphrase: int

    @property
    def is_base(self) -> bool:
        """Whether it is the item as it is."""
        return self.rotation == 0 and self.paraphrase == 0


def variants_of(item: Item, *, rotations: bool, paraphrases: int) -> list[Variant]:
    """All ways of asking an item, the base first, the rotations of one wording next to each other.

    Args:
        item: The item.
        rotations: Whether the options are shown in every rotation. Options that speak of each other stay in place.
        paraphrases: Number of wordings, the item's own included; fewer where there are no more.

    Returns:
        Variants with ids `ID~r1p0` (rotation 1, paraphrase 0) and so on; the base keeps its id.
    """
    turns = len(item.options) if rotations and not is_bound_to_its_order(item) else 1
    texts = wordings(item.task, item.question).texts[:paraphrases]
    return [_variant(item, rotation, number, text) for number, text in enumerate(texts) for rotation in range(turns)]


def all_variants(items: Sequence[Item], *, rotations: bool, paraphrases: int) -> list[Variant]:
    """The variants of some items, those of one picture (with its box) next to each other.

    Args:
        items: Items, any order.
        rotations: See `variants_of`.
        paraphrases: See `variants_of`.

    Returns:
        Variants by picture in order of first appearance, within it by item, wording and rotation.
    """
    pictures: dict[tuple[object, ...], list[Item]] = {}
    for item in items:
        pictures.setdefault((item.sha256_pixels, item.bbox_xyxy_px), []).append(item)
    return [
        variant
        for together in pictures.values()
        for item in together
        for variant in variants_of(item, rotations=rotations, paraphrases=paraphrases)
    ]


def _variant(item: Item, rotation: int, paraphrase: int, question: str) -> Variant:
    if rotation == paraphrase == 0:
        return Variant(item, item.item_id, 0, 0)
    asked = replace(
        item,
        item_id=f"{item.item_id}~r{rotation}p{paraphrase}",
        question=question,
        options=item.options[rotation:] + item.options[:rotation],
        answer_index=(item.answer_index - rotation) % len(item.options),
    )
    return Variant(asked, item.item_id, rotation, paraphrase)
