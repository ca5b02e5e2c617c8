import json
import math
from pathlib import Path

import numpy as np
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
    area_share=None,
    meta=None,
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
        area_share=0.1 if tier is not None and area_share is None else area_share,
        tier=tier,
        constant_answer=constant,
        meta=meta or {},
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
                area_share=row["box_percent"] / 100 if "box_percent" in row else None,
                meta={"device": row.get("device", "")},
            )
            mass = row.get(f"{model}_outside_mass", 0.1)
            pairs.append((item, make_prediction(item, row[model], outside_mass=mass)))
        tables[model] = score_predictions(*build.frames(pairs))
    return tables


@pytest.fixture
def as_number():
    """A golden figure: a number, or a pair [successes, total]."""
    return lambda figure: figure[0] / figure[1] if isinstance(figure, list) else figure


@pytest.fixture
def random_table(build):
    """600 items of one task with skewed answers, some invalid, some uncommitted, all with option scores."""
    rng = np.random.default_rng(7)
    rows = []
    for n in range(600):
        right = "ABCD"[rng.choice(4, p=[0.6, 0.2, 0.15, 0.05])]
        p = rng.dirichlet([0.7] * 4)
        p["ABCD".index(right)] += 0.4
        p = np.clip(p / p.sum(), 1e-6, None)
        p /= p.sum()
        mass = float(rng.beta(1, 6))
        answer = None if rng.random() < 0.05 else "ABCD"[int(p.argmax())]
        words = {"right": right, "group": f"g{n // 10}"}
        rows.append((answer, words, {"probabilities": p * (1 - mass), "outside_mass": mass}))
    return build.scored(rows)
