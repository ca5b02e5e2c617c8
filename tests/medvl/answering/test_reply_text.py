import pytest

from medvl.answering.reply_text import assistant_turns, fold, keyed, tagged, without_thoughts, wording


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("（Ｂ）", "(B)"),
        ("【B】", "(B)"),
        ("“B”", '"B"'),
        ("B\u200b\u00ad", "B"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\x00b", "a b"),
        ("```json\nB\n```", "\nB\n"),
        ("½", "1/2"),
    ],
)
def test_look_alikes_get_one_form(text, folded):
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("B", ["B"]),
        ("", [""]),
        ("USER: q ASSISTANT: a", [" a"]),
        ("ASSISTANT: a", [" a"]),
        ("the rest of a question\nASSISTANT: a", [" a"]),
        ("a\nUSER: q\nASSISTANT: b", ["a\n"]),
        ("USER: q\nASSISTANT: a\nUSER: r\nASSISTANT: b", [" a\n", " b"]),
        ("USER: a question without an answer", [""]),
        ("[INST] q [/INST] a", [" a"]),
        ("a word likeUSER: is no role", ["a word likeUSER: is no role"]),
    ],
)
def test_the_assistants_turns_are_found(text, turns):
    assert assistant_turns(text) == turns


@pytest.mark.parametrize(
    ("text", "kept", "unfinished"),
    [
        ("<think>x</think>B", " B", False),
        ("A <think>x</think>B", "A  B", False),
        ("x</think>B", "B", False),
        ("B<think>x", "B", True),
        ("<think>a<think>b</think>c</think>B", " B", False),
        ("B", "B", False),
    ],
)
def test_thoughts_are_left_out(text, kept, unfinished):
    assert without_thoughts(text) == (kept, unfinished)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("**B**", "B"),
        ("## Answer\n\n* **(B)** _now_", "Answer\n(B) now"),
        ("~~A~~ B", "B"),
        ("$\\text{B}$", "B"),
        ("\\( B \\)", "B"),
        ("\\boxed{\\text{B}}", "Final answer: B"),
        ("x \\boxed{a{b}c} y", "x\nFinal answer: a{b}c\ny"),
        ("\\boxed{B", "Final answer: B"),
        ("\\frac{1}{2} \\pm 3\\%", "1/2 ± 3%"),
        ("aa*|b*", "aa*|b*"),
        ("$51,180 and $12", "$51,180 and $12"),
        ("![a picture](x.png) B</s>", "B"),
        ("<image 3>", "<image 3>"),
        ("| A | x |\n| B | y |", "A | x\nB | y"),
    ],
)
def test_only_the_wording_is_kept(text, words):
    assert wording(text) == words


def test_the_last_answer_tag_counts():
    assert tagged("no tag") is None
    assert tagged("<answer>A</answer> <answer> B </answer>") == " B "
    assert tagged("<final_answer>C") == "C"


def test_answers_in_json_are_found_even_in_broken_json():
    assert keyed('{"reason": "x", "answer": "B"}') == ["B"]
    assert keyed("{'final_answer': 'b', \"choice\": C}") == ["b", "C"]
    assert keyed('{"answer": ["A", "C"') == ['"A", "C"']
    assert keyed('{"answer": true') == ["true"]
    assert keyed('the "answer" is B') == []
