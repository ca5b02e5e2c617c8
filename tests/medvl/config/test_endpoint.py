import pytest
from pydantic import ValidationError

from medvl.config.endpoint import EndpointConfig, EndpointProfile


def profile(**changes):
    return EndpointProfile(**{"name": "lab", "base_url": "http://localhost:8000/v1", "model": "m", **changes})


@pytest.mark.parametrize(
    "base_url", ["http://localhost:8000/v1", "http://localhost:8000/v1/", " http://localhost:8000/v1 "]
)
def test_requests_go_to_chat_completions_below_the_address(base_url):
    assert profile(base_url=base_url).url == "http://localhost:8000/v1/chat/completions"


@pytest.mark.parametrize(
    ("base_url", "message"),
    [
        ("localhost:8000/v1", "no web address"),
        ("ftp://localhost/v1", "no web address"),
        ("http:///v1", "no web address"),
        ("http://localhost:port/v1", "no web address"),
        ("http://[::1/v1", "no web address"),
        ("http://local host/v1", "no web address"),
        ("http://ann:sesame@localhost/v1", "holds a user, a password or a query"),
        ("http://sesame@localhost/v1", "holds a user, a password or a query"),
        ("http://localhost/v1?key=sesame", "holds a user, a password or a query"),
        ("http://localhost/v1/chat/completions/", "leave it out"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_and_not_repeated(base_url, message):
    with pytest.raises(ValidationError, match=message) as raised:
        profile(base_url=base_url)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    ("base_url", "local"),
    [
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.2/v1", True),
        ("http://[::1]:80/v1", True),
        ("http://192.168.0.7:8000/v1", False),
        ("https://api.openai.com/v1", False),
        ("http://localhost.example.org/v1", False),
        ("http://0.0.0.0/v1", False),
    ],
)
def test_only_a_loopback_address_is_this_machine(base_url, local):
    assert profile(base_url=base_url).is_local is local


@pytest.mark.parametrize("key", ["model", "messages", "stream", "max_tokens", "logprobs", "temperature", "n"])
def test_what_medvl_sets_itself_cannot_be_set_again(key):
    with pytest.raises(ValidationError, match=f"extra_body sets {key}"):
        profile(extra_body={key: 1})


def test_a_temperature_of_ones_own_is_for_servers_that_take_no_zero():
    assert profile(accepts_temperature=False, extra_body={"temperature": 1}).is_sampled
    assert not profile().is_sampled


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), object()])
def test_an_extra_value_must_be_json(value):
    with pytest.raises(ValidationError, match="JSON cannot write"):
        profile(extra_body={"extra": value})


def test_one_price_alone_is_refused():
    with pytest.raises(ValidationError, match="belong together"):
        profile(input_price=1.0)


def test_a_profile_is_closed_and_cannot_be_changed():
    with pytest.raises(ValidationError, match="extra"):
        profile(temperature=0)
    with pytest.raises(ValidationError, match="frozen"):
        profile().model = "other"


def test_a_budget_needs_prices():
    facts = {"name": "lab", "base_url": "http://localhost:8000/v1", "model": "m", "budget": 2.0}
    with pytest.raises(ValidationError, match="budget needs the prices"):
        EndpointConfig(**facts)
    assert EndpointConfig(**facts, input_price=1, output_price=2).budget == 2.0
