"""A server is asked like a model on this machine, within one budget, and gets no picture that may not leave."""

import dataclasses

import pytest
from scripted_endpoint import ScriptedEndpoint, make_questions, said

from medvl.batching.picture_control import PictureControl
from medvl.config.endpoint import EndpointConfig
from medvl.errors import ConfigError
from medvl.sources.record import Split
from medvl.training.endpoint_asker import EndpointAsker, endpoint_asker
from medvl.training.session import ask, ask_controls

CARD = {"open": {"redistributable": True}, "closed": {"redistributable": False}}


class Few:
    """Five questions, shown as they are whatever the control."""

    def __init__(self):
        self.samples = make_questions(5)
        self.asked = []

    def items(self, split):
        return [sample.item for sample in self.samples]

    def question_samples(self, split, control, items):
        self.asked += [item.item_id for item in items]
        return (sample for sample in self.samples if sample.item in items)


def server_config(base_url="http://localhost:1/v1", **changes):
    return EndpointConfig(**{"name": "lab", "base_url": base_url, "model": "m", "in_flight": 1, **changes})


def from_source(source):
    return [dataclasses.replace(sample.item, source=source) for sample in make_questions(2)]


def test_answers_become_figures_and_are_kept_but_failures_are_asked_again(tmp_path):
    reply = {0: said("B"), 1: said(None, message={"refusal": "no"})}
    with ScriptedEndpoint(lambda call: reply.get(call.number, said("A"))) as server:
        asker, questions = EndpointAsker(server_config(server.base_url)), Few()
        found = ask(asker, questions, Split.TEST, {"benchmark": "x"}, answers=tmp_path)
        ask(asker, questions, Split.TEST, {"benchmark": "x"}, answers=tmp_path)
    assert [p.answer for p in found.predictions] == ["B", None, "A", "A", "A"]
    assert found.metrics["scoring"] == "endpoint"
    assert found.metrics["fingerprints"] == {"benchmark": "x", **asker.about}
    refused = found.predictions[1].item_id
    assert questions.asked[5:] == [refused]
    assert asker.facts()["endpoint"]["failures"] == {"refusal": 1}
    assert asker.facts()["endpoint"]["usage"]["requests"] == 6
    assert any("questions without a reply: 1 (refusal 1)" in note and refused in note for note in asker.notes())


def test_figures_name_no_address_but_change_with_it():
    near, far = (EndpointAsker(server_config(f"http://{host}.example/v1")).about for host in ("near", "far"))
    assert near != far
    assert "example" not in str(near)


def test_the_budget_is_one_for_the_questions_and_their_controls(tmp_path):
    with ScriptedEndpoint(lambda call: said("A", usage=(1_000_000, 0))) as server:
        facts = {"input_price": 1, "output_price": 0, "budget": 6.5, "picture_tokens": 1_000_000}
        asker = EndpointAsker(server_config(server.base_url, **facts))
        ask(asker, Few(), Split.TEST, {})
        controls = [PictureControl.BLANK, PictureControl.TEXT_ONLY]
        found = ask_controls(asker, Few(), Split.TEST, {}, controls, tmp_path)
    assert asker.usage.cost == pytest.approx(6)
    assert found["text_only"]["overall"]["invalid_rate"] == 1.0
    assert asker.facts()["endpoint"]["failures"] == {"budget": 9}


def test_a_server_that_draws_replies_at_random_says_so_and_how_far_they_agree():
    texts = iter("AABAB" * 5)
    with ScriptedEndpoint(lambda call: said(next(texts))) as server:
        asker = EndpointAsker(server_config(server.base_url, accepts_temperature=False, repeats=5))
        found = ask(asker, Few(), Split.TEST, {})
    assert {p.answer for p in found.predictions} == {"A"}
    assert asker.facts()["endpoint"]["sampled"] is True
    assert asker.facts()["endpoint"]["spread"] == {"n": 5, "mean_agreement": pytest.approx(0.6)}
    assert any("drawn at random" in note for note in asker.notes())


@pytest.mark.parametrize(
    ("host", "source", "images", "refused"),
    [
        ("lab.example", "open", True, None),
        ("lab.example", "open", False, "privacy.images is false"),
        ("lab.example", "closed", True, "pictures of closed stay on this one: their licence"),
        ("localhost", "closed", False, None),
    ],
)
def test_pictures_leave_only_when_asked_and_only_those_that_may(host, source, images, refused):
    config = server_config(f"http://{host}/v1")
    if refused is None:
        assert endpoint_asker(config, from_source(source), CARD, images=images).runs == []
        return
    with pytest.raises(ConfigError, match=refused):
        endpoint_asker(config, from_source(source), CARD, images=images)
