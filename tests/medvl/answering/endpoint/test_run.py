import asyncio
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from scripted_endpoint import Answer, ScriptedEndpoint, make_questions, said

from medvl.answering.endpoint import work as module
from medvl.answering.endpoint.problem import EndpointError
from medvl.answering.endpoint.profile import asking
from medvl.answering.endpoint.retry import Retry
from medvl.answering.endpoint.run import answer_samples, answer_samples_async
from medvl.answering.prediction import Scoring
from medvl.answering.store import AnswerStore
from medvl.errors import ConfigError, DataError, StorageError

FAST = Retry(attempts=3, first_wait_s=0.01)
LETTERS = "ABC"


def number(call) -> int:
    """Which question it is."""
    return int(re.search(r"Question (\d+)\?", call.text)[1])


def by_number(call):
    """Letter of the question's number, the later the sooner, so that replies overtake each other."""
    time.sleep(0.02 * (3 - number(call) % 3))
    return said(LETTERS[number(call) % 3])


def test_every_item_gets_its_own_answer_in_order():
    counts = []
    with ScriptedEndpoint(by_number) as server:
        run = answer_samples(make_questions(20), server.profile(in_flight=5), progress=counts.append)
    assert [answer.item_id for answer in run.predictions] == [f"PI-{n}" for n in range(20)]
    assert [answer.answer for answer in run.predictions] == [LETTERS[n % 3] for n in range(20)]
    assert {answer.scoring for answer in run.predictions} == {Scoring.ENDPOINT}
    assert counts == list(range(1, 21))
    assert 2 <= server.most_at_once <= 5
    assert (run.failures, run.spread, run.served_models, run.sampled) == ([], {}, ("scripted-1",), False)
    assert (run.usage.requests, run.usage.input_tokens, run.usage.output_tokens) == (20, 2000, 20)


def test_no_samples_no_request():
    with ScriptedEndpoint(by_number) as server:
        run = answer_samples([], server.profile())
    assert (run.predictions, run.failures, server.calls) == ([], [], [])


def test_pictures_are_read_as_they_are_needed():
    taken, finished = [], []

    def questions():
        for sample in make_questions(12):
            taken.append(sample)
            assert len(taken) - len(finished) <= 3 + 1
            yield sample

    with ScriptedEndpoint(by_number) as server:
        answer_samples(questions(), server.profile(in_flight=3), progress=finished.append)
    assert len(taken) == 12


TROUBLES = {
    1: (said(None, message={"refusal": "I will not"}), "refusal", 1),
    2: (said("x", finish_reason="content_filter"), "refusal", 1),
    3: (said(""), "empty", 1),
    4: (said(None, finish_reason="length"), "token_limit", 1),
    5: (Answer(200, '{"choices": [{"message": {"conte'), "not_json", 3),
    6: (Answer(200, "<html><title>Sign in</title></html>"), "not_json", 3),
    7: (Answer(502, "<html><title>Bad gateway</title></html>"), "http_502", 3),
    8: (Answer(hangs=True), "timeout", 3),
    9: (Answer(200, "cut", breaks_off=True), "broken_connection", 3),
    10: (Answer(400, {"error": {"message": "picture too large"}}), "http_400", 1),
    11: (Answer(429, "", {"Retry-After": "99999"}), "http_429", 1),
}


def with_troubles(call):
    return TROUBLES[number(call)][0] if number(call) in TROUBLES else said("B")


def test_every_item_ends_as_an_answer_or_as_a_failure_with_its_reason():
    kept = []
    with ScriptedEndpoint(with_troubles) as server:
        run = answer_samples(make_questions(14), server.profile(timeout_s=0.4), retry=FAST, keep=kept.extend)
    expected = [(f"PI-{n}", reason, attempts) for n, (_, reason, attempts) in TROUBLES.items()]
    assert [(one.item_id, one.reason, one.attempts) for one in run.failures] == expected
    assert all(one.detail for one in run.failures)
    assert [(one.answer, one.rule) for one in run.predictions[1:12]] == [
        (None, f"failed:{reason}") for _, reason, _ in TROUBLES.values()
    ]
    assert [run.predictions[n].answer for n in (0, 12, 13)] == ["B"] * 3
    assert sorted(answer.item_id for answer in kept) == ["PI-0", "PI-12", "PI-13"]


def test_a_second_run_asks_only_what_failed(tmp_path):
    samples = make_questions(6)
    with ScriptedEndpoint(lambda call: said(None) if number(call) in (2, 4) else said("B")) as server:
        profile = server.profile()
        store = AnswerStore(tmp_path, asking(profile))
        answer_samples(samples, profile, keep=store.add)
    left = [sample for sample in samples if sample.item.fingerprint() not in store.answers()]
    assert [sample.item.item_id for sample in left] == ["PI-2", "PI-4"]
    with ScriptedEndpoint(lambda call: said("C")) as server:
        answer_samples(left, server.profile(), keep=store.add)
    assert len(server.calls) == 2
    assert [store.answers()[sample.item.fingerprint()].answer for sample in samples] == ["B", "B", "C", "B", "C", "B"]


def test_an_unreadable_reply_is_kept_as_an_invalid_answer():
    kept = []
    with ScriptedEndpoint(lambda call: said("I cannot tell.")) as server:
        run = answer_samples(make_questions(1), server.profile(), keep=kept.extend)
    assert (run.failures, run.predictions) == ([], kept)
    assert (kept[0].answer, kept[0].raw_text) == (None, "I cannot tell.")


def test_letters_are_scored_where_the_server_gives_them():
    top = [("B", -0.2), ("A", -2.0), ("C", -4.0), ("x", -9.0)]
    with ScriptedEndpoint(lambda call: said("B", top=top if "top_logprobs" in call.body else None)) as server:
        (scored,) = answer_samples(make_questions(1), server.profile(accepts_logprobs=True)).predictions
        (text,) = answer_samples(make_questions(1), server.profile()).predictions
    assert (scored.answer, scored.rule, scored.option_logprobs) == ("B", "argmax", pytest.approx((-2.0, -0.2, -4.0)))
    assert (text.answer, text.option_logprobs) == ("B", ())


def test_repeats_give_the_majority_and_its_share():
    replies = {0: "AAA", 1: "ABB", 2: "CBA"}
    seen = {n: iter(letters) for n, letters in replies.items()}
    with ScriptedEndpoint(lambda call: said(next(seen[number(call)]))) as server:
        run = answer_samples(make_questions(3), server.profile(accepts_temperature=False), repeats=3)
    assert [answer.answer for answer in run.predictions] == ["A", "B", "C"]
    assert run.spread == pytest.approx({"PI-0": 1.0, "PI-1": 2 / 3, "PI-2": 1 / 3})
    assert (run.sampled, run.usage.requests) == (True, 9)


def test_no_repeats_below_one():
    with ScriptedEndpoint(by_number) as server, pytest.raises(ConfigError, match="repeats=0"):
        answer_samples(make_questions(1), server.profile(), repeats=0)


@pytest.mark.parametrize("status", [401, 404])
def test_a_wrong_key_or_model_costs_one_request(status):
    with (
        ScriptedEndpoint(lambda call: Answer(status, {"error": {"message": "no"}})) as server,
        pytest.raises(EndpointError, match=f"HTTP {status}"),
    ):
        answer_samples(make_questions(20), server.profile(in_flight=8))
    assert len(server.calls) == 1


def test_a_key_withdrawn_in_between_ends_the_run_and_keeps_what_was_answered():
    kept = []
    with (
        ScriptedEndpoint(lambda call: said("B") if number(call) < 5 else Answer(401, "")) as server,
        pytest.raises(EndpointError, match="HTTP 401"),
    ):
        answer_samples(make_questions(30), server.profile(in_flight=2), keep=kept.extend)
    assert {f"PI-{n}" for n in range(4)} <= {answer.item_id for answer in kept} <= {f"PI-{n}" for n in range(5)}
    assert len(server.calls) < 9


@pytest.mark.parametrize("repeats", [1, 2])
def test_the_budget_holds_under_concurrency(repeats):
    """A request is set aside with its upper bound (.1 a token) and billed with less."""
    billed, lock = [], threading.Lock()

    def bill(call):
        with lock:
            output_tokens = 1 + call.number % 10
            billed.append(0.1 * output_tokens)
        time.sleep(0.01)
        return said("B", usage=(0, output_tokens))

    with ScriptedEndpoint(bill) as server:
        profile = server.profile(in_flight=8, max_output_tokens=10, input_price=0, output_price=1e5)
        run = answer_samples(make_questions(40), profile, budget=7.5, repeats=repeats)
    assert run.usage.cost == pytest.approx(sum(billed))
    assert 7.5 - 1.0 < run.usage.cost <= 7.5  # stops only when not one request more would fit
    assert len(run.predictions) == 40
    assert {failure.reason for failure in run.failures} == {"budget"}
    asked = len(run.predictions) - len(run.failures)
    assert asked * repeats <= len(server.calls) <= asked * repeats + 8
    assert [one.rule for one in run.predictions[-5:]] == ["failed:budget"] * 5


@pytest.mark.usefixtures("ctrl_c_works")
def test_ctrl_c_keeps_what_was_answered():
    kept, hanging = [], threading.Event()

    def script(call):
        if number(call) < 7:
            return said("B")
        hanging.set()
        return Answer(hangs=True)

    def interrupt():
        hanging.wait(10)
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with ScriptedEndpoint(script) as server:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            answer_samples(make_questions(30), server.profile(in_flight=3), keep=kept.extend)
    assert sorted(answer.item_id for answer in kept) == [f"PI-{n}" for n in range(7)]


def test_a_cancelled_task_keeps_what_was_answered():
    kept = []

    async def run(profile):
        task = asyncio.create_task(answer_samples_async(make_questions(9), profile, keep=kept.extend))
        while len(server.calls) < 5:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        task.cancel()
        await task

    with (
        ScriptedEndpoint(lambda call: said("B") if number(call) < 3 else Answer(hangs=True)) as server,
        pytest.raises(asyncio.CancelledError),
    ):
        asyncio.run(run(server.profile(in_flight=2)))
    assert sorted(answer.item_id for answer in kept) == ["PI-0", "PI-1", "PI-2"]


def test_a_picture_that_cannot_be_read_ends_the_run_and_keeps_what_was_answered():
    kept = []

    def questions():
        yield from make_questions(4)
        raise DataError("x.png: broken")

    with ScriptedEndpoint(lambda call: said("B")) as server, pytest.raises(DataError, match=r"x\.png: broken"):
        answer_samples(questions(), server.profile(in_flight=1), keep=kept.extend)
    assert len(kept) == 4


def test_a_full_disk_ends_the_run(monkeypatch):
    monkeypatch.setattr(module, "KEEP_EVERY", 2)

    def full(answers):
        raise StorageError("cannot keep 2 answers: No space left on device")

    with ScriptedEndpoint(lambda call: said("B")) as server, pytest.raises(StorageError, match="No space left"):
        answer_samples(make_questions(50), server.profile(in_flight=2), keep=full)
    assert len(server.calls) < 10


def test_a_missing_key_is_said_before_anything_is_sent(monkeypatch):
    monkeypatch.delenv("LAB_KEY", raising=False)
    with ScriptedEndpoint(by_number) as server, pytest.raises(ConfigError, match="LAB_KEY"):
        answer_samples(make_questions(1), server.profile(key_env="LAB_KEY"))
    assert not server.calls


def test_a_key_that_the_model_repeats_is_in_no_prediction(monkeypatch):
    monkeypatch.setenv("LAB_KEY", "very-Secret-key-4711")
    with ScriptedEndpoint(lambda call: said(f"B. You sent {call.headers['authorization']}")) as server:
        run = answer_samples(make_questions(1), server.profile(key_env="LAB_KEY"))
    assert run.predictions[0].answer == "B"
    assert "4711" not in repr(run)


def test_asking_an_endpoint_needs_no_torch():
    code = "import sys, medvl.answering.endpoint.run; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
