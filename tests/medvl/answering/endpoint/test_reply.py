import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_endpoint import said

from medvl.answering.endpoint.problem import Problem
from medvl.answering.endpoint.reply import Reply, TokenScore, read_response
from medvl.answering.endpoint.secrecy import Key

KEY = Key("sesame-open-123")


def read(body, status=200, **headers):
    return read_response(status, headers, body if isinstance(body, str) else json.dumps(body), KEY)


def test_a_reply_is_text_scores_model_and_usage():
    answer = said(" B", top=[(" B", -0.1), ("A", -2.5)], usage=(321, 2))
    expected = TokenScore(" B", -0.1, ((" B", -0.1), ("A", -2.5)))
    assert read(answer.body) == Reply(" B", (expected,), "scripted-1", 321, 2)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        [],
        "many",
        {"prompt_tokens": None, "completion_tokens": 1},
        {"prompt_tokens": -1, "completion_tokens": 1},
    ],
)
def test_a_usage_that_says_nothing_is_not_known(usage):
    body = said("B").body | {"usage": usage}
    assert (read(body).input_tokens, read(body).output_tokens) == (None, None)


@pytest.mark.parametrize(
    "logprobs",
    [None, {}, {"content": None}, {"content": []}, {"tokens": ["B"], "token_logprobs": [-1.0]}, "none", [1]],
)
def test_scores_in_another_form_are_passed_over(logprobs):
    reply = read(said("B", logprobs=logprobs).body)
    assert (reply.text, reply.tokens) == ("B", ())


def test_a_score_may_be_missing():
    content = [{"token": "B", "logprob": None, "top_logprobs": None}]
    assert read(said("B", logprobs={"content": content}).body).tokens == (TokenScore("B", None, ()),)


def test_content_in_parts_is_joined():
    body = said(None, message={"content": [{"type": "text", "text": "The answer "}, {"type": "text", "text": "is B"}]})
    assert read(body.body).text == "The answer is B"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (said(None, message={"refusal": "I cannot help with that"}), "refusal"),
        (said("I ca", finish_reason="content_filter"), "refusal"),
        (said(None, finish_reason="content_filter"), "refusal"),
        (said(None), "empty"),
        (said(""), "empty"),
        (said(" \n"), "empty"),
        (said(None, finish_reason="length"), "token_limit"),
        (said(None, message={"tool_calls": [{"id": "1"}]}, finish_reason="tool_calls"), "empty"),
    ],
)
def test_a_reply_without_an_answer_is_a_problem_that_was_paid_for(answer, reason):
    problem = read(answer.body)
    assert isinstance(problem, Problem)
    assert (problem.reason, problem.is_passing, problem.is_general) == (reason, False, False)
    assert (problem.may_cost, problem.input_tokens, problem.output_tokens) == (True, 100, 1)


def test_a_reply_that_was_cut_is_still_read():
    assert read(said("The answer is B because", finish_reason="length").body).text == "The answer is B because"


def test_a_spent_token_limit_names_the_setting():
    assert "raise max_output_tokens" in read(said(None, finish_reason="length").body).detail


WHOLE = json.dumps(said("B").body)


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        (WHOLE[:-20], "not_json", "expected JSON"),
        ("", "not_json", "got nothing"),
        ("<html><head><title> Log in </title></head><body>" + "x" * 5000, "not_json", "a web page (Log in)"),
        ("<!doctype html><p>no title", "not_json", "a web page (without a title)"),
        ("[]", "no_completion", "[]"),
        ("null", "no_completion", "null"),
        ('{"choices": []}', "no_completion", "choices"),
        ('{"choices": [{"text": "B"}]}', "no_completion", "text"),
        ('{"error": {"message": "upstream is busy", "code": 502}}', "no_completion", "upstream is busy"),
    ],
)
def test_a_success_that_is_no_completion_may_pass(body, reason, words):
    problem = read(body)
    assert (problem.reason, problem.is_passing, problem.may_cost) == (reason, True, True)
    assert words in problem.detail
    assert len(problem.detail) < 400


@pytest.mark.parametrize(
    ("status", "passing", "general"),
    [
        (400, False, False),
        (401, False, True),
        (403, False, True),
        (404, False, True),
        (408, True, False),
        (413, False, False),
        (422, False, False),
        (429, True, False),
        (500, True, False),
        (503, True, False),
        (529, True, False),
    ],
)
def test_a_status_tells_whether_it_passes_and_whom_it_meets(status, passing, general):
    problem = read({"error": {"message": "no"}}, status)
    assert problem == Problem(f"http_{status}", f"HTTP {status}: no", status, is_passing=passing, is_general=general)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "the words", "type": "x", "param": None, "code": None}},
        {"error": "the words"},
        {"object": "error", "message": "the words", "code": 404},
        {"detail": "the words"},
        "the words",
    ],
)
def test_the_words_of_an_error_are_found_in_any_form(body):
    assert read(body, 400).detail == "HTTP 400: the words"


def test_details_of_a_validation_are_quoted():
    body = {"detail": [{"loc": ["body", "temperature"], "msg": "not permitted"}]}
    assert "not permitted" in read(body, 422).detail


def test_a_wait_that_is_asked_for_is_read():
    assert read("", 429, **{"retry-after": "7"}).asked_wait_s == 7.0


def test_spent_credit_is_no_rate_limit():
    for body in (
        {"error": {"message": "quota", "code": "insufficient_quota"}},
        {"error": {"type": "insufficient_quota"}},
    ):
        problem = read(body, 429, **{"retry-after": "1"})
        assert (problem.reason, problem.is_passing, problem.is_general) == ("no_credit", False, True)


@pytest.mark.parametrize(
    "error",
    [
        {"code": "content_filter", "message": "filtered"},
        {"code": "400", "message": "filtered", "innererror": {"code": "ResponsibleAIPolicyViolation"}},
    ],
)
def test_a_filter_in_front_of_the_model_is_a_refusal_of_this_item(error):
    problem = read({"error": error}, 400)
    assert (problem.reason, problem.is_passing, problem.is_general) == ("refusal", False, False)


def test_a_redirect_says_where_to_without_the_key():
    problem = read("", 307, location="https://elsewhere/v1?key=sesame-open-123")
    assert problem.is_general
    assert problem.detail == "HTTP 307, moved to https://elsewhere/v1?key=[hidden]"


@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_the_key_is_hidden_wherever_it_comes_back(status):
    for body in ("you sent sesame-open-123", {"error": {"message": "Bearer sesame-open-123"}}):
        assert "sesame-open-123" not in str(read(body, status))
    body = said("B, sesame-open-123").body | {"model": "sesame-open-123"}
    assert "sesame-open-123" not in str(read(body))
    body = said("", finish_reason="sesame-open-123").body
    assert "sesame-open-123" not in str(read(body))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "error",
                    "code",
                    "usage",
                    "logprobs",
                    "token",
                    "model",
                    "innererror",
                    "text",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(JSON | st.text(), st.integers(200, 599))
def test_any_response_is_a_reply_or_a_problem(body, status):
    assert isinstance(read(body, status), Reply | Problem)
