from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.benchmark.build import tier_of
from medvl.benchmark.options import draw_options
from medvl.benchmark.pictures import ReadPicture
from medvl.benchmark.questions import OVERLAP_IOU, box_area, draft_questions, iou, picture_key
from medvl.benchmark.vocabulary import load_vocabulary, parse_vocabulary
from medvl.config.schema import TierConfig
from medvl.errors import DataError
from medvl.sources.record import Domain, Question, Record, Task

SIDES = st.tuples(*[st.integers(0, 40)] * 4)
BOXES = SIDES.map(lambda s: (float(s[0]), float(s[1]), float(s[0] + s[2] + 1), float(s[1] + s[3] + 1)))


def read(record_id="P0042/img 1", labels=None, boxes=()):
    record = Record("s", record_id, Path("/d/x.png"), "P0042", Domain.CLINICAL, labels or {})
    return ReadPicture(record, 100, 100, "hash", tuple(boxes))


def drafts(*pictures):
    return draft_questions(pictures, load_vocabulary())


@given(BOXES, BOXES)
def test_iou_is_symmetric_and_a_rate(a, b):
    assert 0 <= iou(a, b) <= 1
    assert iou(a, b) == iou(b, a)
    assert (iou(a, b) == 1) == (a == b)


@given(BOXES, BOXES, st.integers(1, 9), st.integers(-20, 20))
def test_iou_knows_neither_scale_nor_place(a, b, scale, shift):
    def moved(box):
        return tuple(x * scale + shift for x in box)

    assert iou(moved(a), moved(b)) == pytest.approx(iou(a, b))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((0, 0, 2, 2), (1, 0, 3, 2), 1 / 3),
        ((0, 0, 2, 2), (2, 0, 4, 2), 0.0),
        ((0, 0, 4, 4), (1, 1, 3, 3), 0.25),
        ((0, 0, 2, 2), (5, 5, 6, 6), 0.0),
    ],
)
def test_iou_of_known_boxes(a, b, expected):
    assert iou(a, b) == pytest.approx(expected)
    assert box_area(a) == (a[2] - a[0]) * (a[3] - a[1])


@pytest.mark.parametrize(
    ("share", "tier"),
    [(1e-9, "small"), (0.0499, "small"), (0.05, "medium"), (0.1999, "medium"), (0.2, "large"), (1, "large")],
)
def test_tiers_close_below_and_open_above(share, tier):
    assert tier_of(share, TierConfig()) == tier


def test_each_label_and_each_box_gives_a_question():
    picture = read(labels={Task.PI: "Fetal_Head", Task.VC: "standard"}, boxes=[("Head", (0, 0, 9, 9))] * 1)
    found, true_of = drafts(picture)
    assert [(d.task, d.raw_label, d.answer) for d in found] == [
        (Task.PI, "Fetal_Head", "fetal head plane"),
        (Task.VC, "standard", "standard view"),
        (Task.VG, "Head", "fetal head"),
    ]
    assert true_of == {"s/P0042/img 1": ("fetal head plane", "standard view", "fetal head")}
    assert [d.bbox_xyxy_px for d in found] == [None, None, (0, 0, 9, 9)]


def test_repeated_boxes_of_one_label_give_one_question_each():
    found, _ = drafts(read(boxes=[("arm", (0, 0, 9, 9)), ("arm", (20, 20, 30, 30))]))
    assert len({d.item_id for d in found}) == 2
    assert all(d.excluded == () for d in found)


@pytest.mark.parametrize(("top", "is_excluded"), [(10, True), (5.01, True), (5, True), (4.99, False), (1, False)])
def test_structures_that_overlap_the_red_box_by_half_are_no_distractors(top, is_excluded):
    found, _ = drafts(read(boxes=[("heart", (0, 0, 10, 10)), ("lungs", (0, 0, 10, top)), ("spine", (50, 50, 60, 60))]))
    heart = found[0]
    assert (iou(heart.bbox_xyxy_px, found[1].bbox_xyxy_px) >= OVERLAP_IOU) == is_excluded
    assert heart.excluded == (("lungs",) if is_excluded else ())


def test_a_finding_without_a_box_is_no_distractor_for_the_boxes_of_its_picture():
    findings = {"Effusion": True, "Mass": True, "Pneumonia": False, "Hernia": True}
    record = picture_with(findings=findings)
    boxes = (("Mass", (0, 0, 9, 9)), ("Nodule", (50, 50, 60, 60)))
    drafts, _ = draft_questions([ReadPicture(record, 100, 100, "hash", boxes)], load_vocabulary())
    assert {d.answer: d.excluded for d in drafts if d.task is Task.VG} == {
        "mass": ("pleural effusion",),
        "nodule": ("pleural effusion",),
    }


@st.composite
def vocabularies(draw):
    """Tables of all tasks over the same names, with synonyms and answers that must not stand beside another."""
    names = [f"answer {i}" for i in range(draw(st.integers(4, 9)))]
    pairs = draw(st.dictionaries(st.sampled_from(names), st.sampled_from(names), max_size=4))
    answers = {
        name: {"labels": [f"RAW_{name}", f"{name}-too"], "not_beside": [pairs[name]] if name in pairs else []}
        for name in names
    }
    number = draw(st.integers(2, 4))
    return parse_vocabulary({task: {"question": "{}?", "num_options": number, "answers": answers} for task in Task})


@st.composite
def asked_pictures(draw):
    """(vocabulary, a read picture with labels, boxes and findings by any of their names)."""
    vocabulary = draw(vocabularies())
    raw = st.sampled_from(list(vocabulary[Task.PI].by_label))
    labels = draw(st.dictionaries(st.sampled_from([Task.PI, Task.VC, Task.FO, Task.CD]), raw, max_size=4))
    findings = draw(st.dictionaries(raw, st.booleans(), max_size=3))
    record = Record("s", draw(st.text(max_size=5)), Path("r.png"), "g", Domain.CLINICAL, labels, findings=findings)
    return vocabulary, ReadPicture(record, 100, 100, "hash", tuple(draw(st.lists(st.tuples(raw, BOXES), max_size=4))))


@given(asked_pictures(), st.sampled_from(["source", "task"]), st.data())
def test_no_distractor_is_the_answer_by_another_name_or_true_of_the_picture(asked_picture, pool, data):
    vocabulary, picture = asked_picture
    drafts, true_of = draft_questions([picture], vocabulary)
    truths = set(true_of[picture_key(picture)])
    for draft in (d for d in drafts if d.options is None):
        answers = vocabulary[draft.task].answers
        own = data.draw(st.sets(st.sampled_from(answers)))
        try:
            options, index, _ = draw_options(
                draft.answer, item_id=draft.item_id, seed=0, vocabulary=vocabulary[draft.task],
                source_answers=own, excluded=draft.excluded, option_pool=pool,
            )  # fmt: skip
        except DataError:
            continue  # every other answer is barred
        meant = [vocabulary[draft.task].answer_to(option) for option in options]
        assert meant.count(draft.answer) == 1
        assert meant[index] == draft.answer
        distractors = set(options) - {draft.answer}
        if draft.task is not Task.VG:
            assert not distractors & truths
        else:
            there = {
                vocabulary[Task.VG].answer_to(raw)
                for raw, box in picture.boxes
                if iou(box, draft.bbox_xyxy_px) >= OVERLAP_IOU
            }
            assert not distractors & there


def test_ids_carry_nothing_of_the_file_or_patient_and_are_stable():
    (draft,), _ = drafts(read(labels={Task.PI: "fetal head"}))
    assert draft.item_id.startswith("s-pi-")
    assert "42" not in draft.item_id.removeprefix("s-pi-") or "0042" not in draft.item_id
    assert drafts(read(labels={Task.PI: "fetal head"}))[0][0].item_id == draft.item_id
    assert drafts(read("P0042/img 2", labels={Task.PI: "fetal head"}))[0][0].item_id != draft.item_id


def test_all_unknown_labels_are_listed_with_counts():
    pictures = [
        read("1", {Task.PI: "four chamber"}),
        read("2", {Task.PI: "four chamber", Task.CD: "sick"}),
        read("3", boxes=[("kidney", (0, 0, 5, 5))]),
    ]
    with pytest.raises(DataError) as caught:
        drafts(*pictures)
    listed = ("CD: 'sick' (1 x, first in 2)", "PI: 'four chamber' (2 x, first in 1)", "VG: 'kidney' (1 x, first in 3)")
    for part in ("s: labels", ", ".join(listed), "vocabulary.yaml"):
        assert part in str(caught.value)


FINDINGS = {"Effusion": True, "Mass": False, "Nodule": False, "Pneumonia": False, "Pneumothorax": True}


def asked(record, findings="balanced", seed=0):
    drafts, true_of = draft_questions([as_read(record)], load_vocabulary(), findings, seed)
    return drafts, true_of["s/r"]


def as_read(record):
    return ReadPicture(record, 100, 100, "hash", ())


def picture_with(**facts):
    return Record("s", "r", Path("r.png"), "g", Domain.CLINICAL, **facts)


def test_present_findings_are_asked_with_as_many_absent_ones():
    drafts, true_of = asked(picture_with(findings=FINDINGS))
    answers = [draft.answer for draft in drafts]
    assert (answers.count("yes"), answers.count("no")) == (2, 2)
    assert set(true_of) == {"pleural effusion", "a pneumothorax"}
    assert all(draft.options == ("yes", "no") and draft.polarity for draft in drafts)
    assert "Is there a pneumothorax in this image?" in {draft.question for draft in drafts}
    assert len({draft.item_id for draft in drafts}) == 4


def test_a_picture_without_a_finding_is_asked_for_one_and_which_follows_the_seed():
    none = picture_with(findings=dict.fromkeys(FINDINGS, False))
    chosen = {asked(none, seed=seed)[0][0].raw_label for seed in range(20)}
    assert len(asked(none)[0]) == 1
    assert len(chosen) > 2


def test_all_findings_can_be_asked():
    assert len(asked(picture_with(findings=FINDINGS), "all")[0]) == 5


def test_two_names_of_one_finding_are_one_question():
    drafts, _ = asked(picture_with(findings={"Infiltrate": False, "Infiltration": True}), "all")
    assert [(draft.raw_label, draft.answer) for draft in drafts] == [("infiltration", "yes")]


def test_an_unknown_finding_is_listed():
    with pytest.raises(DataError, match="FD: 'Gossypiboma'"):
        asked(picture_with(findings={"Gossypiboma": True}))


def test_a_ready_made_question_keeps_its_text_its_options_and_its_box():
    ready = Question("q7", Task.VG, "What is it?", ("a lung", "a rib"), 1, bbox_xyxy_px=(1.0, 2.0, 3.0, 4.0))
    (draft,), _ = asked(picture_with(questions=(ready,)))
    assert (draft.question, draft.options, draft.answer) == ("What is it?", ("a lung", "a rib"), "a rib")
    assert draft.bbox_xyxy_px == (1.0, 2.0, 3.0, 4.0)
