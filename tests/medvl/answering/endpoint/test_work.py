import asyncio

import pytest
from mini_items import make_item
from scripted_endpoint import ScriptedEndpoint, make_questions, said

from medvl.answering.endpoint import work as module
from medvl.answering.endpoint.answer import failed, read_answer
from medvl.answering.endpoint.budget import Ledger
from medvl.answering.endpoint.reply import Reply
from medvl.answering.endpoint.retry import Retry
from medvl.answering.endpoint.secrecy import Key
from medvl.answering.endpoint.sender import Sender
from medvl.answering.endpoint.work import Done, Work
from medvl.batching.dataset import Sample
from medvl.config.endpoint import EndpointProfile
from medvl.errors import ConfigError

AWAY = EndpointProfile(name="far", base_url="https://far.example/v1", model="m")


def do_all(samples, profile, repeats=1, may_leave=()):
    async def run():
        done = Done(None, None)
        async with Sender(profile, Key(None), Ledger(profile, None), Retry(attempts=1)) as sender:
            await Work(iter(samples), profile, sender, done, repeats, may_leave).all_items()
        return done

    return asyncio.run(run())


def test_finished_answers_are_handed_over_some_at_a_time_and_failures_never(monkeypatch):
    monkeypatch.setattr(module, "KEEP_EVERY", 3)
    kept, counts = [], []
    done = Done(counts.append, kept.append)
    for number in range(8):
        item = make_item(number=number)
        lost = number in (1, 6)
        done.add(
            number, failed(item, "timeout", 0.0) if lost else read_answer(item, Reply("A", (), "", None, None), 0.0)
        )
    done.hand_over()
    done.hand_over()
    assert [[answer.item_id for answer in part] for part in kept] == [
        ["PI-0", "PI-2", "PI-3"],
        ["PI-4", "PI-5", "PI-7"],
    ]
    assert counts == list(range(1, 9))
    assert len(done.predictions) == 8


def test_what_was_not_handed_over_can_be_later():
    kept = []
    done = Done(None, kept.append)
    done.add(0, read_answer(make_item(), Reply("A", (), "", None, None), 0.0))
    assert not kept
    done.hand_over()
    assert len(kept) == 1


@pytest.mark.parametrize("shown", [None, make_item(source="secret")])
def test_a_picture_does_not_leave_this_machine_unasked(shown):
    (sample,) = make_questions(1, source="demo" if shown else "secret")
    sample = Sample(sample.item, sample.pixels, shown)
    with pytest.raises(ConfigError, match=r"far is on another machine.*pictures of secret may not leave.*item PI-0"):
        do_all([sample], AWAY, may_leave={"demo"})


def test_a_question_without_a_picture_may_leave():
    sample = Sample(make_questions(1)[0].item, None)
    work = Work(iter([sample]), AWAY, None, Done(None, None), 1, ())
    work._sender = type("Open", (), {"is_out_of_budget": False})()
    assert work._take()[0] is sample


def test_seconds_of_all_repeats_are_counted():
    with ScriptedEndpoint(lambda call: said("ABA"[call.number])) as server:
        done = do_all(make_questions(1), server.profile(), repeats=3)
    assert (done.predictions[0].answer, done.spread[0]) == ("A", pytest.approx(2 / 3))
    assert done.predictions[0].latency_s > 0


def test_attempts_of_all_repeats_are_counted():
    with ScriptedEndpoint(lambda call: said(None)) as server:
        done = do_all(make_questions(1), server.profile(), repeats=3)
    assert (done.failures[0].reason, done.failures[0].attempts) == ("empty", 3)
    assert done.spread == {}
