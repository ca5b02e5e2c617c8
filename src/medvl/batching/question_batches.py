"""Which questions are asked together: those of one picture, within a budget of rows and tokens."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from typing import Any

from medvl.batching.prompt import answer_tokens, question_text, render, style_of
from medvl.benchmark.item import Item


def picture_key(shown: Item) -> Hashable:
    """What two questions have in common that show the same pixels and the same box.

    Args:
        shown: The item whose picture a question shows.
    """
    return shown.sha256_pixels, shown.bbox_xyxy_px


def question_batches(
    pictures: Iterable[Hashable], lengths: Sequence[int], *, rows: int, tokens: int
) -> list[list[int]]:
    """Divide questions into batches, each at most `rows` questions and at most `tokens` tokens with its padding.

    The questions of one picture are together in one batch where it can hold them. The longest come first: what the
    memory does not hold shows at once, and rows of one batch differ little in length.

    Args:
        pictures: For each question, what those of one picture have in common.
        lengths: For each question, the tokens of its row.
        rows: Most questions of a batch.
        tokens: Most tokens of a batch: its rows times the longest of them. A question that is longer is alone.

    Returns:
        Numbers of the questions, each once. Equal lengths keep their order.
    """
    groups: dict[Hashable, list[int]] = {}
    for number, picture in enumerate(pictures):
        groups.setdefault(picture, []).append(number)

    def fits(numbers: Sequence[int]) -> bool:
        return len(numbers) <= rows and len(numbers) * max(lengths[n] for n in numbers) <= tokens

    batches: list[list[int]] = [[]]
    for group in sorted(groups.values(), key=lambda group: -max(lengths[n] for n in group)):
        for piece in [group] if fits(group) else [[n] for n in sorted(group, key=lambda n: -lengths[n])]:
            if batches[-1] and not fits(batches[-1] + piece):
                batches.append([])
            batches[-1] += piece
    return [batch for batch in batches if batch]


def row_lengths(
    processor: Any, items: Sequence[Item], shown: Sequence[Item] | None, picture_tokens: Callable[[int, int], int]
) -> list[int]:
    """Tokens of the rows of questions, found without reading a picture.

    Args:
        processor: The model's processor.
        items: Items.
        shown: For each of them, the item whose picture it shows. None for questions without pictures.
        picture_tokens: (height, width in pixels) -> tokens that a picture puts in the place of its placeholder.
    """
    answers, style, tokenizer = answer_tokens(processor), style_of(processor), processor.tokenizer

    @cache  # few questions of a benchmark differ in their text
    def text_tokens(text: str) -> int:
        rendered = render(processor, text, picture=shown is not None) + answers.opening
        return len(tokenizer(rendered, add_special_tokens=answers.adds_special_tokens)["input_ids"])

    sizes = cache(picture_tokens)
    texts = [text_tokens(question_text(item, style)) for item in items]
    if shown is None:
        return texts
    place = len(tokenizer(processor.image_token, add_special_tokens=False)["input_ids"])
    return [length - place + sizes(item.height, item.width) for length, item in zip(texts, shown, strict=True)]
