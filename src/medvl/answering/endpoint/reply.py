"""Reads the response of a chat-completions server: a reply, or the problem that it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from medvl.answering.endpoint.problem import Problem
from medvl.answering.endpoint.retry import asked_wait_s
from medvl.answering.endpoint.secrecy import Key

PASSING_STATUS = (408, 409, 425, 429)
"""Refusals that may pass; those of the server itself (500 and above) may too."""

GENERAL_STATUS = (401, 402, 403, 404, 405, 407)
"""Refusals that every request would meet."""

NO_CREDIT = ("insufficient_quota", "billing_hard_limit_reached")
FILTERED = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")


@dataclass(frozen=True, slots=True)
class TokenScore:
    """One token of a reply with the likeliest tokens of its place.

    Attributes:
        token: Text of the token.
        logprob: Its natural-log probability; None when not given.
        top: (text, natural-log probability) of the likeliest tokens.
    """

    token: str
    logprob: float | None
    top: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said.

    Attributes:
        text: The reply, with the thoughts that stand in it, if any.
        tokens: Scores of its tokens; empty when not given.
        model: Name of the model as the server gives it; "" when it gives none.
        input_tokens: As billed; None when not told.
        output_tokens: As billed; None when not told.
        is_cut: Whether it was stopped at its longest.
    """

    text: str
    tokens: tuple[TokenScore, ...]
    model: str
    input_tokens: int | None
    output_tokens: int | None
    is_cut: bool = False


Form = TypeVar("Form", bound=BaseModel)


class _Part(BaseModel):
    text: str = ""


class _Message(BaseModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: Any = None


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    model: str | None = None
    usage: Any = None


class _Usage(BaseModel):
    prompt_tokens: Annotated[int, Field(ge=0)]
    completion_tokens: Annotated[int, Field(ge=0)]


class _Top(BaseModel):
    token: str
    logprob: float | None = None


class _Token(_Top):
    top_logprobs: list[_Top] | None = None


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


def read_response(status: int, headers: Mapping[str, str], body: str, key: Key) -> Reply | Problem:
    """Read one response.

    Args:
        status: HTTP status.
        headers: Response headers, by lower-case name.
        body: Response body.
        key: Key of the endpoint, which is taken out of all that is handed on.
    """
    if not 200 <= status < 300:
        return _refused(status, headers, body, key)
    try:
        completion = _Completion.model_validate_json(body)
    except ValidationError:
        return _unreadable(status, body, key)
    choice, usage = completion.choices[0], _optional(_Usage, completion.usage)
    input_tokens = usage.prompt_tokens if usage else None
    output_tokens = usage.completion_tokens if usage else None
    content = choice.message.content
    text = "".join(part.text for part in content) if isinstance(content, list) else content or ""

    def no_answer(reason: str, detail: str) -> Problem:
        return Problem(reason, detail, status, may_cost=True, input_tokens=input_tokens, output_tokens=output_tokens)

    if choice.message.refusal or choice.finish_reason == "content_filter":
        return no_answer("refusal", f"the model refused: {key.excerpt(choice.message.refusal or text or 'no words')}")
    if not text.strip() and choice.finish_reason == "length":
        return no_answer("token_limit", "all tokens went into thoughts and none into a reply; raise max_output_tokens")
    if not text.strip():
        return no_answer("empty", f"the reply is empty (finish_reason {key.excerpt(str(choice.finish_reason))})")
    logprobs = _optional(_Logprobs, choice.logprobs)
    tokens = tuple(
        TokenScore(one.token, one.logprob, tuple((top.token, top.logprob) for top in one.top_logprobs or ()))
        for one in (logprobs.content if logprobs else None) or ()
    )
    is_cut = choice.finish_reason == "length"
    return Reply(key.hide(text), tokens, key.hide(completion.model or ""), input_tokens, output_tokens, is_cut)


def _optional(kind: type[Form], value: Any) -> Form | None:
    """A part that a reply can do without, where it has the expected form."""
    try:
        return None if value is None else kind.model_validate(value)
    except ValidationError:
        return None


def _refused(status: int, headers: Mapping[str, str], body: str, key: Key) -> Problem:
    said, codes = _said(body)
    detail = f"HTTP {status}" + (f": {key.excerpt(said)}" if said else "")
    if status == 429 and any(code in codes for code in NO_CREDIT):
        return Problem("no_credit", detail, status, is_general=True)
    if status == 400 and any(code in codes for code in FILTERED):
        return Problem("refusal", detail, status)
    if 300 <= status < 400:
        detail = f"HTTP {status}, moved to {key.excerpt(headers.get('location', 'nowhere'))}"
        return Problem(f"http_{status}", detail, status, is_general=True)
    return Problem(
        f"http_{status}",
        detail,
        status,
        is_passing=status in PASSING_STATUS or status >= 500,
        is_general=status in GENERAL_STATUS,
        asked_wait_s=asked_wait_s(headers.get("retry-after")),
    )


def _unreadable(status: int, body: str, key: Key) -> Problem:
    """A success that is no chat completion: a page of a proxy, a reply that broke off, an error under status 200."""
    try:
        json.loads(body)
    except ValueError:
        said, _ = _said(body)
        return Problem(
            "not_json", f"expected JSON, got {key.excerpt(said) or 'nothing'}", status, is_passing=True, may_cost=True
        )
    said, codes = _said(body)
    if any(code in codes for code in NO_CREDIT):
        return Problem("no_credit", key.excerpt(said), status, is_general=True)
    return Problem(
        "no_completion", f"expected a chat completion, got {key.excerpt(said)}", status, is_passing=True, may_cost=True
    )


_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{0,200})", re.IGNORECASE)


def _said(body: str) -> tuple[str, list[str]]:
    """What an error body says, and the codes it holds. Servers write errors in several forms."""
    if body.lstrip().startswith("<"):
        title = _TITLE.search(body)
        return f"a web page ({title[1].strip() if title else 'without a title'})", []
    try:
        found = json.loads(body)
    except ValueError:
        return body, []
    error = found.get("error", found) if isinstance(found, dict) else found
    if not isinstance(error, dict):
        return error if isinstance(error, str) else body, []
    inner = error.get("innererror")
    codes = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, dict) else None]
    words = next((error[name] for name in ("message", "detail", "error") if error.get(name)), body)
    return words if isinstance(words, str) else json.dumps(words), [code for code in codes if isinstance(code, str)]
