import json
import math
from pathlib import Path

import polars as pl
import pytest

from medvl.answering.prediction import Prediction, Scoring, predictions_to_frame
from medvl.benchmark.item import LETTERS, Item, items_to_frame
from medvl.evaluation.scored import score_predictions
from medvl.sources.record import Domain, Split, Task

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics"


def make_item(
    item_id,
    *,
    task="PI",
    right="A",
    options=("w", "x", "y", "z"),
    group="g0",
    source="s",
    domain="clinical",
    tier=None,
    constant=False,
):
    index = LETTERS.index(right)
    return Item(
        item_id=item_id,
        picture=f"{item_id}.png",
        sha256_pixels=f"pixels of {item_id}",
        width=64,
        height=64,
        task=Task(task),
        question="Which?",
        options=tuple(options),
        answer_index=index,
        raw_label="raw",
        answer=options[index],
        group=group,
        source=source,
        domain=Domain(domain),
        split=Split.TEST,
        bbox_xyxy_px=None if tier is None else (1.0, 2.0, 10.0, 12.0),
        area_share=None if tier is None else 0.1,
        tier=tier,
        constant_answer=constant,
    )


def make_prediction(item, answer, *, probabilities=(), outside_mass=None, scoring="letter"):
    return Prediction(
        item_id=item.item_id,
        item_fingerprint=item.fingerprint(),
        answer=answer,
        option_logprobs=tuple(math.log(p) for p in probabilities),
        outside_mass=outside_mass,
        raw_text="",
        rule="argmax",
        scoring=Scoring(scoring),
        latency_s=0.1,
    )


class Builder:
    """Makes items, predictions and scored tables from a few words a row."""

    item = staticmethod(make_item)
    prediction = staticmethod(make_prediction)

    @staticmethod
    def frames(pairs):
        return items_to_frame([i for i, _ in pairs]), predictions_to_frame([p for _, p in pairs])

    def scored(self, rows):
        """Each row: (answer, item keywords) or (answer, item keywords, prediction keywords)."""
        pairs = []
        for n, (answer, item_words, *rest) in enumerate(rows):
            item = make_item(f"i{n:04d}", **item_words)
            pairs.append((item, make_prediction(item, answer, **(rest[0] if rest else {}))))
        return score_predictions(*self.frames(pairs))


@pytest.fixture
def build():
    return Builder()


@pytest.fixture
def golden():
    return lambda name: json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.fixture
def thirty(build, golden) -> dict[str, pl.DataFrame]:
    """Scored tables `before` and `after` of the thirty hand-counted predictions."""
    tables = {}
    for model in ("before", "after"):
        pairs = []
        for row in golden("thirty_predictions")["input"]:
            item = make_item(
                f"q{row['item']:02d}",
                task=row["task"],
                right=row["right"],
                options=row["options"],
                group=row["patient"],
                source=row["source"],
                domain=row["domain"],
                tier=row["box"],
            )
            mass = row.get(f"{model}_outside_mass", 0.1)
            pairs.append((item, make_prediction(item, row[model], outside_mass=mass)))
        tables[model] = score_predictions(*build.frames(pairs))
    return tables


@pytest.fixture
def as_number():
    """A golden figure: a number, or a pair [successes, total]."""
    return lambda figure: figure[0] / figure[1] if isinstance(figure, list) else figure
