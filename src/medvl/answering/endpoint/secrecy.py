"""The key of an endpoint: from the environment into a request header, and nowhere else."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import httpx

from medvl.config.endpoint import EndpointProfile
from medvl.errors import ConfigError

HIDDEN = "[hidden]"
SHORTEST_SECRET = 8
"""Shorter keys are place holders of local servers (`EMPTY`), and hiding them would spoil ordinary text."""

LONGEST_EXCERPT = 300
"""Characters of a foreign text that a message quotes."""

# What looks like a key though it is not ours word for word: servers quote keys in part (`sk-ab****yz`).
_KEYLIKE = re.compile(r"(?i:bearer|basic)\s{1,4}[\w.~+/*=-]{8,}|\bsk-[\w*.-]{4,}|[\w.-]{0,40}\*{3,}[\w.*-]*")


class Key:
    """A key that shows itself to nobody.

    Args:
        text: The key; None where the server wants none.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"Key({HIDDEN})"

    def __reduce__(self) -> str:
        raise TypeError("a key is never written anywhere")

    def sign(self, request: httpx.Request) -> None:
        """Put the key into the header of a request."""
        if self._text is not None:
            request.headers["Authorization"] = f"Bearer {self._text}"

    def hide(self, text: str) -> str:
        """Text without the key, in any spelling that a server may give it."""
        if self._text is None or len(self._text) < SHORTEST_SECRET:
            return text
        encoded = base64.b64encode(self._text.encode()).decode().rstrip("=")
        for form in {self._text, quote(self._text, safe=""), quote(self._text), json.dumps(self._text)[1:-1], encoded}:
            text = re.sub(re.escape(form), HIDDEN, text, flags=re.IGNORECASE)
        return text

    def excerpt(self, text: str) -> str:
        """One short line of a foreign text, free of keys, to be quoted in a message."""
        line = " ".join(_KEYLIKE.sub(HIDDEN, self.hide(text)).split())
        return line if len(line) <= LONGEST_EXCERPT else line[:LONGEST_EXCERPT] + " ..."


class Signing(httpx.Auth):
    """Signs requests as they leave, so that no dictionary of headers with a key in it lies about.

    Args:
        key: The key.
    """

    def __init__(self, key: Key) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sign one request."""
        self._key.sign(request)
        yield request


def read_key(profile: EndpointProfile) -> Key:
    """Take the key of an endpoint from the environment.

    Raises:
        ConfigError: The variable is not set, or holds what cannot be a key. Its value is not shown.
    """
    if profile.key_env is None:
        return Key(None)
    text = os.environ.get(profile.key_env, "").strip()
    if not text:
        raise ConfigError([f"{profile.name} needs a key: set the environment variable {profile.key_env}"])
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(
            [f"the environment variable {profile.key_env} holds blanks or characters that no key has: set it anew"]
        )
    return Key(text)


@contextmanager
def without_wire_log() -> Iterator[None]:
    """Keep httpcore from logging response headers (level DEBUG), in which a server may send a key back."""
    logger = logging.getLogger("httpcore")
    before = logger.level
    logger.setLevel(max(logging.INFO, before))
    try:
        yield
    finally:
        logger.setLevel(before)
