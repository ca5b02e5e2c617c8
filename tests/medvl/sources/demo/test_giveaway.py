"""A linear classifier on thumbnails must not answer the demo's questions: its pictures have to be looked at."""

import cv2
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from medvl.sources.demo.picture import draw_picture
from medvl.sources.demo.plan import plan_dataset

SIDE_PX = 16


def _thumbnail(picture):
    return cv2.resize(picture, (SIDE_PX, SIDE_PX), interpolation=cv2.INTER_AREA).astype(float).ravel()


def _accuracy(rows):
    """Accuracy on the patients of every fifth place after training on the others."""
    features, labels, patients = (np.array(column) for column in zip(*rows, strict=True))
    test = patients % 5 == 0
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.03, max_iter=500))
    return model.fit(features[~test], labels[~test]).score(features[test], labels[test])


@pytest.fixture(scope="module")
def drawn():
    return [(plan, draw_picture(plan)) for plan in plan_dataset(0, 250)]


@pytest.mark.slow
@pytest.mark.parametrize(("column", "limit"), [("plane", 0.6), ("orientation", 0.6), ("diagnosis", 0.65)])
def test_thumbnails_do_not_tell_the_label(drawn, column, limit):
    rows = [(_thumbnail(d.grey), getattr(p, column), p.patient) for p, d in drawn if getattr(p, column)]
    assert _accuracy(rows) < limit


@pytest.mark.slow
def test_thumbnails_with_the_box_do_not_tell_the_structure(drawn):
    with_rectangle, with_place = [], []
    for plan, picture in drawn:
        height, width = picture.grey.shape
        for name, mask in picture.masks.items():
            x, y, w, h = cv2.boundingRect(mask)
            boxed = cv2.cvtColor(picture.grey, cv2.COLOR_GRAY2RGB)
            cv2.rectangle(boxed, (x, y), (x + w - 1, y + h - 1), (255, 0, 0), 2)
            place = np.array([x / width, y / height, w / width, h / height, w * h / (width * height)])
            with_rectangle.append((_thumbnail(boxed), name, plan.patient))
            with_place.append((np.concatenate([_thumbnail(picture.grey), place]), name, plan.patient))
    # among all ten structures; the question shows four of them
    assert _accuracy(with_rectangle) < 0.45
    assert _accuracy(with_place) < 0.45
