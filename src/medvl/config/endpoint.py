"""What an endpoint is and what it accepts. Settings that it does not accept are never sent."""

from __future__ import annotations

import ipaddress
import json
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from medvl.config.node import Node, Positive

Price = Annotated[float, Field(ge=0)]

OURS = ("model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs")
"""Keys of a request that medvl sets itself, or that would change what a reply is."""

PATH = "/chat/completions"


class EndpointProfile(Node):
    """An OpenAI-compatible chat-completions endpoint."""

    model_config = ConfigDict(hide_input_in_errors=True)  # an address may hold a password

    name: Annotated[str, Field(min_length=1)]
    """What messages call it."""
    base_url: str
    """Address without `/chat/completions`; ends in `/v1` for most servers."""
    model: Annotated[str, Field(min_length=1)]
    """Name of the model at the server. Prefer a dated name: an alias changes its weights without notice."""
    key_env: Annotated[str, Field(min_length=1)] | None = None
    """Environment variable that holds the key; None for a server that wants none."""
    picture_format: Literal["png", "jpeg"] = "png"
    """`png` sends the very pixels; `jpeg` (quality 95) is several times smaller."""
    accepts_temperature: bool = True
    """True: temperature 0 is sent. False: the server decides, and the run counts as `sampled`."""
    accepts_logprobs: bool = False
    """True: log-probabilities of the likeliest tokens are asked for, see `medvl.answering.endpoint.first_token`."""
    top_logprobs: Annotated[int, Field(gt=0, le=20)] = 20
    """How many of them; OpenAI and vLLM give 20 at most."""
    token_limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the limit of `max_output_tokens`."""
    max_output_tokens: Positive = 64
    """Most tokens of a reply. A reasoning model spends its thoughts from the same limit: give it thousands."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further keys of every request, as the server wants them (`reasoning_effort`, `chat_template_kwargs`, ...)."""
    input_price: Price | None = None
    """Price of a million input tokens; None when not known."""
    output_price: Price | None = None
    """Price of a million output tokens, in the same currency."""
    picture_tokens: Positive = 4096
    """Most input tokens that one picture is billed as. A budget keeps what it promises only if this holds."""
    in_flight: Positive = 8
    """Requests at the same time."""
    timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """Seconds from sending a request to the end of its reply."""

    @field_validator("base_url")
    @classmethod
    def _is_plain_address(cls, base_url: str) -> str:
        base_url = base_url.strip().rstrip("/")
        try:
            parts = urlsplit(base_url)
            host, user, _ = parts.hostname, parts.username or parts.password, parts.port
        except ValueError:
            raise ValueError("is no web address; expected e.g. http://localhost:8000/v1") from None
        if parts.scheme not in ("http", "https") or not host or any(c.isspace() for c in base_url):
            raise ValueError("is no web address; expected e.g. http://localhost:8000/v1")
        if user or parts.query or parts.fragment:
            raise ValueError(
                "holds a user, a password or a query; give the address alone and put the key into the environment "
                "variable that key_env names"
            )
        if base_url.endswith(PATH):
            raise ValueError(f"ends in {PATH}, which medvl adds itself; leave it out")
        return base_url

    @model_validator(mode="after")
    def _extra_is_extra(self) -> Self:
        ours = (*OURS, "temperature") if self.accepts_temperature else OURS
        if taken := sorted(set(self.extra_body) & set(ours)):
            raise ValueError(f"extra_body sets {', '.join(taken)}, which medvl sets itself; leave it out")
        try:
            json.dumps(self.extra_body, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError("extra_body holds a value that JSON cannot write") from None
        return self

    @model_validator(mode="after")
    def _both_prices(self) -> Self:
        if (self.input_price is None) != (self.output_price is None):
            raise ValueError("input_price and output_price belong together; give both or none")
        return self

    @property
    def url(self) -> str:
        """Where requests go."""
        return self.base_url + PATH

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine."""
        host = urlsplit(self.base_url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def is_sampled(self) -> bool:
        """Whether replies are drawn at random, as the temperature cannot be set to 0."""
        return not self.accepts_temperature


class EndpointConfig(EndpointProfile):
    """An endpoint, and how a benchmark is put to it."""

    repeats: Positive = 1
    """How often each item is asked; the answer given most often is taken. For servers that draw replies at random."""
    budget: Annotated[float, Field(gt=0)] | None = None
    """Most that one command may cost, in the currency of the prices; None: no ceiling."""

    @model_validator(mode="after")
    def _budget_has_prices(self) -> Self:
        if self.budget is not None and self.input_price is None:
            raise ValueError("budget needs the prices: set input_price and output_price (per million tokens)")
        return self
