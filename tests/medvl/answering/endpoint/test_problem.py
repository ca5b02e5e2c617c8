import pytest

from medvl.answering.endpoint.problem import EndpointError, Problem, endpoint_error
from medvl.config.endpoint import EndpointProfile
from medvl.errors import ModelError


def profile(key_env=None):
    return EndpointProfile(name="lab", base_url="http://localhost:8000/v1", model="m7", key_env=key_env)


@pytest.mark.parametrize(
    ("problem", "key_env", "advice"),
    [
        (Problem("http_400", "HTTP 400: bad", 400), None, "Correct what the server names.*accepts_temperature"),
        (Problem("http_401", "HTTP 401", 401), None, "name that in key_env"),
        (Problem("http_401", "HTTP 401", 401), "LAB_KEY", "environment variable LAB_KEY is not accepted"),
        (Problem("http_403", "HTTP 403", 403), "LAB_KEY", "LAB_KEY may not use this model"),
        (Problem("http_404", "HTTP 404", 404), None, "http://localhost:8000/v1/models"),
        (Problem("http_308", "HTTP 308", 308), None, "set base_url"),
        (Problem("no_credit", "HTTP 429", 429), None, "top it up"),
        (Problem("unreachable", "refused"), None, "start the server"),
    ],
)
def test_an_error_says_what_where_and_what_to_do(problem, key_env, advice):
    error = endpoint_error(problem, profile(key_env), "PI-3")
    assert isinstance(error, EndpointError)
    assert str(error).startswith("lab at http://localhost:8000/v1/chat/completions (model m7, item PI-3): ")
    assert problem.detail in str(error)
    with pytest.raises(ModelError, match=advice):
        raise error
