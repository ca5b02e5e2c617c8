from hypothesis import given
from hypothesis import strategies as st
from mini_items import make_item

from medvl.batching.prompt import answer_tokens, question_text, render
from medvl.batching.question_batches import picture_key, question_batches, row_lengths

asked = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 50)), max_size=30)
"""(picture, tokens of the row) of some questions."""


def divided(questions, rows, tokens):
    return question_batches([p for p, _ in questions], [n for _, n in questions], rows=rows, tokens=tokens)


@given(asked, st.integers(1, 8), st.integers(1, 120))
def test_every_question_is_asked_once_within_the_budget(questions, rows, tokens):
    batches = divided(questions, rows, tokens)
    assert sorted(number for batch in batches for number in batch) == list(range(len(questions)))
    for batch in batches:
        longest = max(questions[number][1] for number in batch)
        assert 1 <= len(batch) <= rows
        assert len(batch) * longest <= tokens or len(batch) == 1


@given(asked, st.integers(1, 8), st.integers(1, 120))
def test_the_questions_of_a_picture_stay_together_where_a_batch_holds_them(questions, rows, tokens):
    batches = divided(questions, rows, tokens)
    for picture in {p for p, _ in questions}:
        numbers = [number for number, (p, _) in enumerate(questions) if p == picture]
        if len(numbers) <= rows and len(numbers) * max(questions[n][1] for n in numbers) <= tokens:
            assert sum(bool(set(batch) & set(numbers)) for batch in batches) == 1


@given(asked.filter(bool))
def test_the_longest_row_is_in_the_first_batch(questions):
    assert max(n for _, n in questions) in {questions[number][1] for number in divided(questions, 4, 120)[0]}


def test_a_question_longer_than_the_budget_is_asked_alone():
    assert divided([(0, 10), (1, 500), (2, 10)], 8, 100) == [[1], [0, 2]]


def test_pictures_differ_by_pixels_and_box():
    item = make_item()
    assert picture_key(item) == picture_key(make_item(question="another"))
    assert picture_key(item) != picture_key(make_item(sha256_pixels="f" * 64))
    assert picture_key(item) != picture_key(make_item(bbox_xyxy_px=(0.0, 0.0, 2.0, 2.0)))


def test_a_row_has_the_tokens_of_its_text_and_of_the_picture_that_is_shown(tiny_base):
    processor = tiny_base.processor
    items = [make_item(), make_item(number=1, question="Is the head seen in this picture?", options=("yes", "no"))]
    shown = [make_item(width=50, height=70), make_item(width=7, height=9)]
    adds = answer_tokens(processor).adds_special_tokens

    def tokens(item, picture):
        text = render(processor, question_text(item), picture=picture)
        return len(processor.tokenizer(text, add_special_tokens=adds)["input_ids"])

    found = row_lengths(processor, items, shown, lambda height, width: 1000 * height + width)
    assert found == [tokens(items[0], True) - 1 + 70050, tokens(items[1], True) - 1 + 9007]
    assert row_lengths(processor, items, None, lambda height, width: 0) == [tokens(item, False) for item in items]
