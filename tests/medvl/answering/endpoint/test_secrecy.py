import base64
import copy
import json
import logging
import pickle
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.answering.endpoint.secrecy import HIDDEN, LONGEST_EXCERPT, Key, Signing, read_key, without_wire_log
from medvl.config.endpoint import EndpointProfile
from medvl.errors import ConfigError

SECRET = 'Very+Secret/"Key"%123'


def profile(key_env):
    return EndpointProfile(name="lab", base_url="http://localhost/v1", model="m", key_env=key_env)


def test_the_key_comes_from_the_environment_and_goes_into_the_header(monkeypatch):
    monkeypatch.setenv("LAB_KEY", f"  {SECRET}\n")
    request = httpx.Request("POST", "http://localhost")
    next(Signing(read_key(profile("LAB_KEY"))).auth_flow(request))
    assert request.headers["Authorization"] == f"Bearer {SECRET}"


def test_a_server_without_a_key_gets_no_header():
    request = httpx.Request("POST", "http://localhost")
    next(Signing(read_key(profile(None))).auth_flow(request))
    assert "Authorization" not in request.headers


@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_a_missing_key_is_said_with_the_variable(monkeypatch, value):
    monkeypatch.delenv("LAB_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("LAB_KEY", value)
    with pytest.raises(ConfigError, match="lab needs a key: set the environment variable LAB_KEY"):
        read_key(profile("LAB_KEY"))


@pytest.mark.parametrize("value", ["two words", "line\nbreak", "schlüssel-123", "tab\tkey"])
def test_a_value_that_is_no_key_is_refused_and_not_shown(monkeypatch, value):
    monkeypatch.setenv("LAB_KEY", value)
    with pytest.raises(ConfigError, match="LAB_KEY holds blanks or characters") as raised:
        read_key(profile("LAB_KEY"))
    assert value not in str(raised.value)


def test_a_key_is_neither_shown_nor_written():
    key = Key(SECRET)
    request = httpx.Request("POST", "http://localhost")
    next(Signing(key).auth_flow(request))
    shown = [repr(key), str(key), f"{key!r}", repr(request), repr(request.headers), repr(Signing(key))]
    assert not [text for text in shown if SECRET in text]
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(TypeError):
        copy.copy(key)


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        SECRET.upper(),
        quote(SECRET),
        quote(SECRET, safe=""),
        json.dumps(SECRET)[1:-1],
        base64.b64encode(SECRET.encode()).decode(),
    ],
)
def test_the_key_is_hidden_in_any_spelling(form):
    hidden = Key(SECRET).hide(f"before {form} after")
    assert hidden.startswith(f"before {HIDDEN}")
    assert hidden.endswith(" after")


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("Incorrect API key provided: sk-proj-abcd****wxyz. See", "wxyz"),
        ("Incorrect key: abc1*****9xyz", "9xyz"),
        ("authorization: Bearer AnotherKey12345", "AnotherKey"),
    ],
)
def test_an_excerpt_hides_what_looks_like_a_key(text, gone):
    assert gone not in Key(None).excerpt(text)
    assert HIDDEN in Key(None).excerpt(text)


def test_an_excerpt_is_one_short_line():
    assert Key(None).excerpt(" a\n b\t c ") == "a b c"
    assert len(Key(None).excerpt("x" * 10_000)) < LONGEST_EXCERPT + 10


def test_a_key_at_the_cut_of_an_excerpt_is_hidden_whole():
    excerpt = Key(SECRET).excerpt("x" * (LONGEST_EXCERPT - 5) + SECRET)
    assert SECRET[:4] not in excerpt


@given(st.text())
def test_text_without_the_key_stays_as_it_is(text):
    assert Key("no-such-key-in-here").hide(text) == text
    assert Key(None).hide(text) == text


@pytest.mark.parametrize("place_holder", ["EMPTY", "B", "none"])
def test_a_place_holder_is_no_secret(place_holder):
    assert Key(place_holder).hide("EMPTY B none") == "EMPTY B none"


@pytest.mark.parametrize("level", [logging.NOTSET, logging.DEBUG, logging.ERROR])
def test_the_wire_is_not_logged_and_the_level_comes_back(level):
    logger = logging.getLogger("httpcore")
    before = logger.level
    try:
        logger.setLevel(level)
        with without_wire_log():
            assert not logging.getLogger("httpcore.http11").isEnabledFor(logging.DEBUG)
            assert logger.level >= level
        assert logger.level == level
    finally:
        logger.setLevel(before)
