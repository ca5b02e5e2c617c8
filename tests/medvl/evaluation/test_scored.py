import polars as pl
import pytest

from medvl.errors import DataError
from medvl.evaluation.scored import cluster_codes, score_predictions


def pairs_of(build, n=4):
    items = [build.item(f"i{k}") for k in range(n)]
    return [(item, build.prediction(item, "A")) for item in items]


def test_every_item_gets_its_prediction_whatever_the_order(build):
    items = [build.item(f"i{k}", right="ABCD"[k]) for k in range(4)]
    pairs = [(item, build.prediction(item, "ABDC"[k])) for k, item in enumerate(items)]
    frame, predictions = build.frames(pairs)
    straight = score_predictions(frame, predictions)
    assert straight["is_correct"].to_list() == [True, True, False, False]
    assert straight["predicted_text"].to_list() == ["w", "x", "z", "y"]
    assert straight["answer"].to_list() == ["w", "x", "y", "z"]
    assert straight["answer_letter"].to_list() == ["A", "B", "C", "D"]
    assert straight["predicted_letter"].to_list() == ["A", "B", "D", "C"]
    assert score_predictions(frame, predictions.reverse()).equals(straight)


def test_an_invalid_answer_is_wrong_and_has_no_text(build):
    row = build.scored([(None, {})]).row(0, named=True)
    assert (row["is_invalid"], row["is_correct"], row["predicted_text"]) == (True, False, None)


@pytest.mark.parametrize(("mass", "uncommitted"), [(None, False), (0.0, False), (0.5, False), (0.501, True)])
def test_a_right_letter_with_most_mass_outside_the_options_is_uncommitted_and_wrong(build, mass, uncommitted):
    row = build.scored([("A", {}, {"outside_mass": mass})]).row(0, named=True)
    assert row["is_uncommitted"] is uncommitted
    assert row["is_correct"] is not uncommitted
    assert not row["is_invalid"]


def test_chance_follows_the_number_of_options(build):
    scored = build.scored([("A", {"options": ("yes", "no")}), ("A", {"options": ("a", "b", "c")}), ("A", {})])
    assert scored["chance"].to_list() == pytest.approx([1 / 2, 1 / 3, 1 / 4])


def test_missing_foreign_and_repeated_predictions_are_refused_together_with_counts_and_first_ids(build):
    frame, predictions = build.frames(pairs_of(build, 8))
    kept = predictions.filter(~pl.col("item_id").is_in(["i0", "i1", "i2", "i3", "i4"]))
    foreign = predictions.head(1).with_columns(pl.lit("stranger").alias("item_id"))
    with pytest.raises(DataError) as caught:
        score_predictions(frame, pl.concat([kept, kept.head(1), foreign]))
    text = str(caught.value)
    assert "each of 8 items, got 5 predictions" in text
    assert "5 item(s) have no prediction (i0, i1, i2 and 2 more)" in text
    assert "1 item(s) have more than one prediction (i5)" in text
    assert "1 prediction(s) are of an item that is not among the items (stranger)" in text


def test_an_item_listed_twice_is_refused(build):
    frame, predictions = build.frames(pairs_of(build))
    with pytest.raises(DataError, match=r"1 item\(s\) are listed more than once in the items table \(i0\)"):
        score_predictions(pl.concat([frame, frame.head(1)]), predictions)


def test_a_prediction_of_another_version_of_the_item_is_refused(build):
    frame, predictions = build.frames(pairs_of(build))
    changed = frame.with_columns(
        pl.when(pl.col("item_id") == "i2").then(pl.lit("Other?")).otherwise("question").alias("question")
    )
    with pytest.raises(DataError, match=r"1 of 4 predictions were made on another version .*: i2\."):
        score_predictions(changed, predictions)


def test_moving_an_item_to_another_split_or_group_keeps_its_prediction(build):
    frame, predictions = build.frames(pairs_of(build))
    moved = frame.with_columns(pl.lit("val").alias("split"), pl.lit("other").alias("group"))
    assert score_predictions(moved, predictions)["is_correct"].all()


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("answer", "E", "not the letter of an option"),
        ("answer", "a", "not the letter of an option"),
        ("answer", "?", "not the letter of an option"),
        ("option_logprobs", [-1.0, -2.0], "number of option scores"),
        ("option_logprobs", [-1.0, -2.0, -3.0, float("nan")], "no finite number"),
        ("option_logprobs", [-1.0, -2.0, -3.0, float("-inf")], "no finite number"),
        ("option_logprobs", [-1.0, -2.0, -3.0, None], "no finite number"),
        ("option_logprobs", [-1.0, -2.0, -3.0, 0.5], "no finite number or above 0"),
        ("outside_mass", 1.2, "outside mass"),
        ("outside_mass", -0.2, "outside mass"),
        ("outside_mass", float("nan"), "outside mass"),
    ],
)
def test_values_that_cannot_be_are_refused_naming_the_item(build, column, value, words):
    frame, predictions = build.frames(pairs_of(build, 1))
    broken = predictions.with_columns(pl.Series(column, [value], dtype=predictions.schema[column]))
    with pytest.raises(DataError, match=rf"1 prediction\(s\) have .*{words}.*: i0\."):
        score_predictions(frame, broken)


def test_an_absent_column_is_named(build):
    frame, predictions = build.frames(pairs_of(build))
    with pytest.raises(DataError, match=r"predictions table lacks the column.* outside_mass"):
        score_predictions(frame, predictions.drop("outside_mass"))
    with pytest.raises(DataError, match=r"items table lacks the column.* options, group"):
        score_predictions(frame.drop("options", "group"), predictions)


def test_an_unknown_task_is_refused_without_a_traceback(build):
    frame, predictions = build.frames(pairs_of(build))
    with pytest.raises(DataError, match="'XX'"):
        score_predictions(frame.with_columns(pl.lit("XX").alias("task")), predictions)


def test_patients_of_two_sources_with_the_same_id_are_two_groups(build):
    scored = build.scored(
        [
            ("A", {"source": "one", "group": "1"}),
            ("A", {"source": "two", "group": "1"}),
            ("A", {"source": "one", "group": "1"}),
        ]
    )
    codes = cluster_codes(scored)
    assert codes[0] == codes[2] != codes[1]
    assert set(codes) == {0, 1}
