from medvl.answering.endpoint.profile import asking
from medvl.answering.store import asking_key
from medvl.config.endpoint import EndpointProfile


def profile(**changes):
    return EndpointProfile(**{"name": "lab", "base_url": "http://localhost:8000/v1", "model": "m", **changes})


CHANGES = [
    {"base_url": "http://localhost:9000/v1"},
    {"model": "other"},
    {"picture_format": "jpeg"},
    {"accepts_temperature": False},
    {"accepts_logprobs": True},
    {"accepts_logprobs": True, "top_logprobs": 5},
    {"max_output_tokens": 65},
    {"extra_body": {"reasoning_effort": "low"}},
]


def test_whatever_changes_an_answer_is_another_way_of_asking():
    ways = [asking(profile()), asking(profile(), repeats=3), *(asking(profile(**change)) for change in CHANGES)]
    assert len({asking_key(way) for way in ways}) == len(ways)


def test_what_changes_no_answer_is_the_same_way_of_asking():
    plain = asking(profile())
    for change in ({"name": "x"}, {"in_flight": 1}, {"timeout_s": 1}, {"key_env": "K"}, {"top_logprobs": 5}):
        assert asking(profile(**change)) == plain
