"""What can go wrong with a request, as values, and the one error that ends a run."""

from __future__ import annotations

from dataclasses import dataclass

from medvl.config.endpoint import EndpointProfile
from medvl.errors import ModelError


class EndpointError(ModelError):
    """An endpoint cannot be asked: wrong key, model, address or settings, or it no longer answers."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request gave no answer.

    Attributes:
        reason: Short name, e.g. `timeout`, `http_503`, `refusal`.
        detail: What the server or the network said, free of secrets.
        status: HTTP status; None where there was no whole response.
        is_passing: Whether the same request may succeed a little later.
        is_general: Whether every other request would meet it too.
        may_cost: Whether the server may have billed the request.
        asked_wait_s: Seconds that the server asked to wait; None where it did not.
        input_tokens: Input tokens billed; None when not known.
        output_tokens: Output tokens billed; None when not known.
    """

    reason: str
    detail: str
    status: int | None = None
    is_passing: bool = False
    is_general: bool = False
    may_cost: bool = False
    asked_wait_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


def endpoint_error(problem: Problem, profile: EndpointProfile, item_id: str) -> EndpointError:
    """The error for a problem that asking on would not cure.

    Args:
        problem: What happened.
        profile: Where.
        item_id: Item that was asked.
    """
    return EndpointError(
        f"{profile.name} at {profile.url} (model {profile.model}, item {item_id}): {problem.detail}. "
        f"{_advice(problem, profile)}"
    )


def _advice(problem: Problem, profile: EndpointProfile) -> str:
    if problem.reason == "no_credit":
        return "The account has no credit left: top it up, and the same command goes on from the answers kept so far"
    if problem.reason == "unreachable":
        return "Nothing answers there: start the server, or correct base_url"
    match problem.status:
        case 401 | 403 if profile.key_env is None:
            return "The server wants a key: put it into an environment variable and name that in key_env"
        case 401:
            return f"The key in the environment variable {profile.key_env} is not accepted: set it anew"
        case 403:
            return f"The key in {profile.key_env} may not use this model: ask for access, or choose another model"
        case 404:
            return (
                "There is no such model or no such path: compare model with the list at "
                f"{profile.base_url}/models, and base_url with the server's documentation"
            )
        case status if status is not None and 300 <= status < 400:
            return "Requests are not sent on to another address: set base_url to the right one"
        case _:
            return (
                "Correct what the server names: the profile says what is sent (accepts_temperature, "
                "accepts_logprobs, top_logprobs, token_limit_name, max_output_tokens, picture_format, extra_body)"
            )
