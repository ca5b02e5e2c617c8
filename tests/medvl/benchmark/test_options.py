from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from medvl.benchmark.options import draw_options, shuffle_options
from medvl.benchmark.vocabulary import load_vocabulary, parse_vocabulary
from medvl.errors import DataError
from medvl.sources.record import Task

VOCABULARY = load_vocabulary()


def draw(task, answer, item_id="i", **changes):
    arguments = {"seed": 0, "source_answers": {answer}, "excluded": (answer,), "option_pool": "source", **changes}
    return draw_options(answer, item_id=item_id, vocabulary=VOCABULARY[task], **arguments)


@st.composite
def questions(draw_from):
    task = draw_from(st.sampled_from(list(Task)))
    answers = VOCABULARY[task].answers
    subset = st.sets(st.sampled_from(answers))
    excluded = draw_from(subset) if task is Task.VG else set()
    return {
        "task": task,
        "answer": draw_from(st.sampled_from(answers)),
        "item_id": draw_from(st.text(max_size=8)),
        "source_answers": draw_from(subset),
        "excluded": excluded,
        "option_pool": draw_from(st.sampled_from(["source", "task"])),
        "seed": draw_from(st.integers(0, 3)),
    }


@given(questions())
def test_options_hold_the_answer_once_and_nothing_that_could_be_meant_by_it(question):
    task, answer, excluded = question["task"], question["answer"], question["excluded"]
    conflicts = VOCABULARY[task].conflicts
    try:
        options, index, _ = draw(**question)
    except DataError:
        barred = {a for other in {answer, *excluded} for a in (other, *conflicts[other])}
        assert barred >= set(VOCABULARY[task].answers)
        return
    assert options[index] == answer
    assert len(set(options)) == len(options) >= 2
    distractors = set(options) - {answer}
    assert not distractors & (excluded - {answer})
    assert not any(d in conflicts[e] for d in distractors for e in excluded)
    assert not any(a in conflicts[b] for a in options for b in options)


@pytest.mark.parametrize("task", list(Task))
def test_every_answer_gets_the_full_number_of_options(task):
    for answer in VOCABULARY[task].answers:
        for i in range(30):
            assert len(draw(task, answer, f"item-{i}")[0]) == VOCABULARY[task].num_options


@given(st.sampled_from(["source", "task"]), st.text(max_size=6))
def test_the_same_item_gets_the_same_options(pool, item_id):
    assert draw(Task.PI, "femur length plane", item_id, option_pool=pool) == draw(
        Task.PI, "femur length plane", item_id, option_pool=pool
    )


def test_seed_and_item_decide_the_draw():
    drawn = {draw(Task.VG, "heart", f"item-{i}", seed=s)[0] for i in range(20) for s in range(2)}
    assert len(drawn) > 30


def test_the_right_letter_of_20000_items_is_uniform_within_each_task():
    tasks = list(Task)
    letters = {task: Counter() for task in tasks}
    for i in range(20_000):
        task, item_id = tasks[i % len(tasks)], f"s-{i}"
        if task is Task.FD:  # its options are given
            index = shuffle_options(("yes", "no")[i // 6 % 2], ("yes", "no"), item_id=item_id, seed=0)[1]
        else:
            answers = VOCABULARY[task].answers
            index = draw(task, answers[i // 6 % len(answers)], item_id)[1]
        letters[task][index] += 1
    for task, counts in letters.items():
        assert set(counts) == set(range(VOCABULARY[task].num_options))
        assert chisquare(list(counts.values())).pvalue > 0.01, task


def test_every_distractor_has_its_turn():
    drawn = Counter(o for i in range(3000) for o in draw(Task.VG, "heart", f"i{i}")[0] if o != "heart")
    others = len(VOCABULARY[Task.VG].answers) - 1 - len(VOCABULARY[Task.VG].conflicts["heart"])
    assert len(drawn) == others
    assert min(drawn.values()) > 0.6 * 3 * 3000 / others


def test_distractors_come_from_the_source_first_and_say_so():
    own = {"heart", "spine", "femur", "stomach", "lungs"}
    for i in range(50):
        options, _, pool = draw(Task.VG, "heart", f"i{i}", source_answers=own)
        assert set(options) <= own
        assert pool == "source"
    options, _, pool = draw(Task.VG, "heart", source_answers={"heart", "spine"})
    assert "spine" in options
    assert pool == "task"


def test_the_task_pool_reaches_beyond_the_source():
    own = {"heart", "spine", "femur", "stomach"}
    drawn = {o for i in range(50) for o in draw(Task.VG, "heart", f"i{i}", source_answers=own, option_pool="task")[0]}
    assert drawn - own


def test_a_question_without_any_distractor_names_the_item():
    table = {"CD": {"question": "?", "num_options": 2, "answers": {"a": {"is_a": "b"}, "b": {}}}}
    vocabulary = parse_vocabulary(table)[Task.CD]
    with pytest.raises(DataError, match="item i-7: no distractor exists for 'a'"):
        draw_options(
            "a", item_id="i-7", seed=0, vocabulary=vocabulary, source_answers={"a"}, excluded=(), option_pool="source"
        )
