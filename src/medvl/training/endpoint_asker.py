"""Asks a server in place of a model that is loaded on this machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from medvl.answering.endpoint.budget import Usage
from medvl.answering.endpoint.profile import asking
from medvl.answering.endpoint.run import EndpointRun, answer_samples
from medvl.answering.prediction import Prediction, Scoring
from medvl.answering.store import asking_key
from medvl.batching.picture_control import PictureControl
from medvl.benchmark.item import Item
from medvl.config.endpoint import EndpointConfig
from medvl.errors import ConfigError
from medvl.sources.record import Split
from medvl.training.askers import Keep, Progress, Questions
from medvl.training.team import ALONE, Team


@dataclass(frozen=True, slots=True)
class EndpointAsker:
    """A way of asking, see `medvl.training.askers.Asker`.

    Attributes:
        config: The server.
        may_leave: Sources whose pictures may be sent to another machine.
        runs: What came of each time that it asked, in order.
    """

    config: EndpointConfig
    may_leave: Collection[str] = ()
    runs: list[EndpointRun] = field(default_factory=list)

    @property
    def scoring(self) -> Scoring:
        """See `Asker`."""
        return Scoring.ENDPOINT

    @property
    def team(self) -> Team:
        """See `Asker`. A server is asked by one process, which keeps several requests in flight."""
        return ALONE

    @property
    def about(self) -> dict[str, str]:
        """See `Asker`. The address is in the hash only, so that figures that are passed on name no host."""
        return {"model": self.config.model, "endpoint": asking_key(asking(self.config, self.config.repeats))}

    def answer(
        self,
        questions: Questions,
        split: Split,
        control: PictureControl | None,
        items: list[Item],
        progress: Progress | None,
        keep: Keep | None,
    ) -> list[Prediction]:
        """See `Asker`. The budget is one for all times that it asks."""
        budget = self.config.budget
        run = answer_samples(
            questions.question_samples(split, control, items),
            self.config,
            repeats=self.config.repeats,
            # What is spent leaves a ceiling under which nothing fits: the items then fail with `budget`.
            budget=None if budget is None else max(budget - (self.usage.cost or 0.0), 1e-12),
            may_leave=self.may_leave,
            progress=progress,
            keep=keep,
        )
        self.runs.append(run)
        return run.predictions

    @property
    def usage(self) -> Usage:
        """Tokens and money of all times together."""
        used = [run.usage for run in self.runs]
        costs = [one.cost for one in used if one.cost is not None]
        return Usage(
            requests=sum(one.requests for one in used),
            input_tokens=sum(one.input_tokens for one in used),
            output_tokens=sum(one.output_tokens for one in used),
            cost=sum(costs) if costs else None,
            estimated_requests=sum(one.estimated_requests for one in used),
        )

    def facts(self) -> dict[str, Any]:
        """See `Asker`."""
        spread = [share for run in self.runs for share in run.spread.values()]
        facts = {
            "sampled": self.config.is_sampled,
            "repeats": self.config.repeats,
            "spread": {"n": len(spread), "mean_agreement": sum(spread) / len(spread)} if spread else None,
            "served_models": self._served_models(),
            "failures": dict(self._failures()),
            "usage": asdict(self.usage),
        }
        return {"endpoint": facts}

    def notes(self) -> list[str]:
        """See `Asker`."""
        usage, sentences = self.usage, []
        if failures := self._failures():
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in failures.most_common())
            example = next(failure for run in self.runs for failure in run.failures)
            sentences.append(
                f"questions without a reply: {failures.total():,} ({reasons}). They count as invalid; the same command "
                f"asks them again. The first: {example.item_id}: {example.detail}"
            )
        cost = "" if usage.cost is None else f", cost {usage.cost:.4f}"
        sentences.append(
            f"{usage.requests:,} requests, {usage.input_tokens:,} input and {usage.output_tokens:,} output tokens{cost}"
        )
        if self.config.is_sampled:
            sentences.append("replies are drawn at random, as the server takes no temperature: figures vary by run")
        if len(served := self._served_models()) > 1:
            sentences.append(f"the server changed the model while it was asked: {', '.join(served)}")
        return sentences

    def _failures(self) -> Counter[str]:
        return Counter(failure.reason for run in self.runs for failure in run.failures)

    def _served_models(self) -> list[str]:
        return sorted({name for run in self.runs for name in run.served_models})


def endpoint_asker(
    config: EndpointConfig, items: Sequence[Item], sources: Mapping[str, Mapping[str, Any]], *, images: bool
) -> EndpointAsker:
    """Get ready to ask a server.

    Args:
        config: The server.
        items: What will be asked.
        sources: Sources of the benchmark's card.
        images: Whether pictures may leave this machine (`privacy.images`).

    Raises:
        ConfigError: The server is on another machine and pictures would be sent that may not leave this one.
    """
    allowed = {name for name, entry in sources.items() if images and entry["redistributable"]}
    if not config.is_local and (kept := sorted({item.source for item in items} - allowed)):
        why = "their licence does not let pictures be passed on" if images else "privacy.images is false"
        raise ConfigError(
            [
                f"endpoint {config.name} is on another machine, and pictures of {', '.join(kept)} stay on this one: "
                f"{why}. Leave these sources out (data.sources, data.own), or ask a server on this machine"
            ]
        )
    return EndpointAsker(config, allowed)
