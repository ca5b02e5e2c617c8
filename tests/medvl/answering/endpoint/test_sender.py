import asyncio
import logging
import socket
import time

import pytest
from scripted_endpoint import Answer, ScriptedEndpoint, said

from medvl.answering.endpoint import sender as module
from medvl.answering.endpoint.budget import Ledger
from medvl.answering.endpoint.problem import EndpointError, Problem
from medvl.answering.endpoint.reply import Reply
from medvl.answering.endpoint.retry import Retry
from medvl.answering.endpoint.secrecy import Key, read_key
from medvl.answering.endpoint.sender import Sender
from medvl.config.endpoint import EndpointProfile

FAST = Retry(attempts=3, first_wait_s=0.01)
SECRET = "very-Secret-key-4711"
BODY = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "?"}]}]}
BUSY = Answer(503, {"error": {"message": "busy"}})


def ask(profile, times=1, retry=FAST, key=None, budget=None):
    """Outcomes of asking one question after the other, and the usage."""

    async def run():
        ledger = Ledger(profile, budget)
        async with Sender(profile, key or Key(None), ledger, retry) as sender:
            outcomes = [await sender.ask(f"PI-{number}", BODY, 100) for number in range(times)]
        return outcomes, ledger.usage

    return asyncio.run(run())


def sequence(*answers):
    """A script that says these, one after the other, then the last for ever."""
    return lambda call: answers[min(call.number, len(answers) - 1)]


def test_a_question_is_posted_as_json_with_the_key():
    with ScriptedEndpoint(sequence(said("B"))) as server:
        ((outcome, sent),), usage = ask(server.profile(), key=Key(SECRET))
    assert isinstance(outcome, Reply)
    assert (outcome.text, sent, usage.requests) == ("B", 1, 1)
    (call,) = server.calls
    assert (call.path, call.body) == ("/v1/chat/completions", BODY)
    assert call.headers["authorization"] == f"Bearer {SECRET}"
    assert call.headers["content-type"] == "application/json"


def test_no_key_no_header():
    with ScriptedEndpoint(sequence(said("B"))) as server:
        ask(server.profile())
    assert "authorization" not in server.calls[0].headers


@pytest.mark.parametrize(
    "trouble",
    [
        BUSY,
        Answer(500, "oops"),
        Answer(429, {"error": {"message": "slow down"}}),
        Answer(502, "<html><title>Bad gateway</title></html>"),
        Answer(200, '{"choices": [{"mess'),
        Answer(200, "partly", breaks_off=True),
    ],
)
def test_what_may_pass_is_tried_again(trouble):
    with ScriptedEndpoint(sequence(trouble, trouble, said("B"))) as server:
        ((outcome, sent),), usage = ask(server.profile())
    assert (outcome.text, sent, usage.requests) == ("B", 3, 3)


def test_attempts_end():
    with ScriptedEndpoint(sequence(BUSY)) as server:
        ((outcome, sent),), _ = ask(server.profile())
    assert isinstance(outcome, Problem)
    assert (outcome.reason, outcome.detail, sent) == ("http_503", "HTTP 503: busy", 3)


def test_a_wait_that_is_asked_for_is_kept():
    with ScriptedEndpoint(sequence(Answer(429, "", {"Retry-After": "1"}), said("B"))) as server:
        start = time.perf_counter()
        ((outcome, sent),), _ = ask(server.profile())
    assert (outcome.text, sent) == ("B", 2)
    assert time.perf_counter() - start >= 1.0


def test_a_wait_of_hours_is_not_kept():
    with ScriptedEndpoint(sequence(Answer(429, "", {"Retry-After": "86400"}))) as server:
        ((outcome, sent),), _ = ask(server.profile())
    assert (outcome.reason, sent) == ("http_429", 1)


def test_a_server_that_hangs_is_left_and_counts_as_billed():
    with ScriptedEndpoint(sequence(Answer(hangs=True))) as server:
        profile = server.profile(timeout_s=0.3, input_price=1e4, output_price=0)
        ((outcome, sent),), usage = ask(profile, retry=Retry(attempts=2, first_wait_s=0.01))
    assert (outcome.reason, outcome.detail, sent) == ("timeout", "no whole reply within 0.3 s", 2)
    assert (usage.estimated_requests, usage.cost) == (2, pytest.approx(2.0))


def test_a_reply_that_drips_is_left_too():
    """Each byte comes in time, the whole never does."""

    def drip(listening):
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            try:
                for _ in range(100):
                    connection.sendall(b" ")
                    time.sleep(0.05)
            except OSError:
                pass

    async def run(profile):
        async with Sender(profile, Key(None), Ledger(profile, None), Retry(attempts=1)) as sender:
            dripping = asyncio.create_task(asyncio.to_thread(drip, listening))
            outcome = await sender.ask("PI-0", BODY, 1)
            await dripping
            return outcome

    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        outcome, _ = asyncio.run(run(EndpointProfile(name="x", base_url=address, model="m", timeout_s=0.4)))
    assert outcome.reason == "timeout"


@pytest.mark.parametrize(
    ("status", "advice"),
    [(400, "Correct what the server names"), (401, "wants a key"), (403, "wants a key"), (404, "no such model")],
)
def test_a_refusal_ends_the_run_after_one_request(status, advice):
    with (
        ScriptedEndpoint(sequence(Answer(status, {"error": {"message": "The model `m` does not exist"}}))) as server,
        pytest.raises(EndpointError, match=rf"item PI-0\): HTTP {status}: The model `m` does not exist\. .*{advice}"),
    ):
        ask(server.profile())
    assert len(server.calls) == 1


def test_spent_credit_ends_the_run_after_one_request():
    answer = Answer(429, {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}})
    with ScriptedEndpoint(sequence(answer)) as server, pytest.raises(EndpointError, match="no credit left"):
        ask(server.profile())
    assert len(server.calls) == 1


def test_a_bad_request_after_an_answer_is_about_its_item():
    answers = (said("B"), Answer(400, {"error": {"message": "picture too large"}}), said("C"))
    with ScriptedEndpoint(sequence(*answers)) as server:
        outcomes, _ = ask(server.profile(), times=3)
    assert [outcome.text if isinstance(outcome, Reply) else outcome.reason for outcome, _ in outcomes] == [
        "B",
        "http_400",
        "C",
    ]


def test_a_filter_refuses_the_first_item_only():
    answers = (Answer(400, {"error": {"code": "content_filter", "message": "filtered"}}), said("B"))
    with ScriptedEndpoint(sequence(*answers)) as server:
        outcomes, _ = ask(server.profile(), times=2)
    assert [outcome.reason if isinstance(outcome, Problem) else "" for outcome, _ in outcomes] == ["refusal", ""]


def test_a_server_that_is_not_there_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    with pytest.raises(EndpointError, match=r"ConnectError.*start the server, or correct base_url"):
        ask(EndpointProfile(name="x", base_url=address, model="m"))


def test_a_server_that_stopped_working_ends_the_run(monkeypatch):
    monkeypatch.setattr(module, "GIVE_UP_AFTER", 4)
    with (
        ScriptedEndpoint(sequence(said("B"), BUSY)) as server,
        pytest.raises(EndpointError, match=r"4 items in a row got no reply, lastly PI-4: HTTP 503: busy"),
    ):
        ask(server.profile(), times=9, retry=Retry(attempts=1))
    assert len(server.calls) == 5


def test_settings_that_leave_no_room_for_a_reply_end_the_run(monkeypatch):
    monkeypatch.setattr(module, "GIVE_UP_AFTER", 3)
    with (
        ScriptedEndpoint(sequence(said(None, finish_reason="length"))) as server,
        pytest.raises(EndpointError, match=r"3 items in a row got no reply.*raise max_output_tokens"),
    ):
        ask(server.profile(), times=9)
    assert len(server.calls) == 3


def test_a_model_that_always_refuses_is_asked_to_the_end(monkeypatch):
    monkeypatch.setattr(module, "GIVE_UP_AFTER", 3)
    with ScriptedEndpoint(sequence(said(None, message={"refusal": "no"}))) as server:
        outcomes, _ = ask(server.profile(), times=5)
    assert [outcome.reason for outcome, _ in outcomes] == ["refusal"] * 5


def test_a_bad_request_after_a_refusal_is_about_its_item():
    with ScriptedEndpoint(sequence(said(None, message={"refusal": "no"}), Answer(400, "too large"))) as server:
        outcomes, _ = ask(server.profile(), times=2)
    assert [outcome.reason for outcome, _ in outcomes] == ["refusal", "http_400"]


def test_a_request_that_was_refused_costs_nothing():
    with ScriptedEndpoint(sequence(BUSY, BUSY, said("B", usage=(50, 1)))) as server:
        _, usage = ask(server.profile(input_price=1e4, output_price=0))
    assert (usage.requests, usage.estimated_requests, usage.cost) == (3, 0, pytest.approx(0.5))


def test_single_failures_do_not_end_the_run(monkeypatch):
    monkeypatch.setattr(module, "GIVE_UP_AFTER", 2)
    with ScriptedEndpoint(lambda call: said("B") if call.number % 2 else BUSY) as server:
        outcomes, _ = ask(server.profile(), times=6, retry=Retry(attempts=1))
    assert len(outcomes) == 6


def test_nothing_is_sent_beyond_the_budget():
    with ScriptedEndpoint(sequence(said("B", usage=(100, 1)))) as server:
        profile = server.profile(input_price=1e4, output_price=0)  # 1 a request
        outcomes, usage = ask(profile, times=5, budget=2.5)
    assert [sent for _, sent in outcomes] == [1, 1, 0, 0, 0]
    assert outcomes[2][0].reason == "budget"
    assert (len(server.calls), usage.cost) == (2, pytest.approx(2.0))


def test_a_redirect_is_not_followed():
    with (
        ScriptedEndpoint(sequence(said("B"))) as other,
        ScriptedEndpoint(sequence(Answer(307, "", {"Location": f"{other.base_url}?key={SECRET}"}))) as server,
        pytest.raises(EndpointError, match="set base_url to the right one") as raised,
    ):
        ask(server.profile(), key=Key(SECRET))
    assert not other.calls
    assert SECRET not in str(raised.value)
    assert other.base_url in str(raised.value)


def test_a_proxy_is_not_used_for_this_machine(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with ScriptedEndpoint(sequence(said("B"))) as server:
        ((outcome, _),), _ = ask(server.profile())
    assert outcome.text == "B"


def everything_about(error: BaseException) -> str:
    """Message, repr, attributes and frames of an error and of all that hang on it."""
    seen, waiting = [], [error]
    while waiting:
        one = waiting.pop()
        seen += [str(one), repr(one), repr(vars(one))]
        frame = one.__traceback__
        while frame is not None:
            if "medvl/answering" in frame.tb_frame.f_code.co_filename:
                seen.append(repr(frame.tb_frame.f_locals))
            frame = frame.tb_next
        waiting += [chained for chained in (one.__cause__, one.__context__) if chained is not None]
    return "\n".join(seen)


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 429, 500])
def test_a_key_that_a_server_sends_back_is_never_shown(status, monkeypatch, caplog, capsys):
    """In body and headers, with all logging on, as an error or as a value."""
    monkeypatch.setenv("LAB_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpcore").setLevel(logging.DEBUG)

    def echo(call):
        sent = call.headers["authorization"]
        assert sent == f"Bearer {SECRET}"
        headers = {"Location": f"http://127.0.0.1/{SECRET}", "X-Echo": sent}
        return Answer(status, {"error": {"message": f"Incorrect key {SECRET} in {call.headers}"}}, headers)

    with ScriptedEndpoint(echo) as server:
        profile = server.profile(key_env="LAB_KEY")
        try:
            shown = repr(ask(profile, key=read_key(profile), retry=Retry(attempts=2, first_wait_s=0.01)))
        except EndpointError as error:
            shown = everything_about(error)
    logging.getLogger("httpcore").setLevel(logging.NOTSET)
    printed = capsys.readouterr()
    assert f"HTTP {status}" in shown or "Incorrect key [hidden]" in shown
    for text in (shown, caplog.text, printed.out, printed.err):
        assert SECRET not in text
        assert SECRET.lower() not in text.lower()


def test_errors_of_the_network_are_not_chained(monkeypatch):
    """They hold the request, and with it the key."""
    monkeypatch.setenv("LAB_KEY", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    profile = EndpointProfile(name="x", base_url=address, model="m", key_env="LAB_KEY")
    with pytest.raises(EndpointError) as raised:
        ask(profile, key=read_key(profile))
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert SECRET not in everything_about(raised.value)
