"""Facts of a scene and the questions that ask for them."""

from __future__ import annotations

from dataclasses import dataclass

from medvl.models.tiny.scenes import DIRECTIONS, MARKS, PLACES, SIZES, TONES, Scene, Thing
from medvl.models.tiny.shapes import EDGES, SHAPES, STRIPES, TEXTURES

COUNTS = ("one", "two", "three", "four", "five", "six")
NAMEABLE = 4
"""Most objects of a group of which one is asked for by its name."""
POSES = tuple(
    f"points {way}, mark {where}"
    for ways, wheres in ((("up", "down"), ("left", "right")), (("left", "right"), ("above", "below")))
    for way in ways
    for where in wheres
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of question.

    Attributes:
        name: Name in the curve.
        answers: All answers; the wrong options are drawn from them.
        questions: Wordings.
        weight: How often it is asked where it can be, beside the others of a scene; more for what is rare or hard.
    """

    name: str
    answers: tuple[str, ...]
    questions: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Fact:
    """What is true of a scene, as the answer to a kind of question.

    Attributes:
        kind: Name of the kind.
        answer: The answer.
        answers: Answers that options may be drawn from (all but those that would also be right or unclear).
    """

    kind: str
    answer: str
    answers: tuple[str, ...]


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("shape", SHAPES, ("Which shape is this?", "What does the picture show?")),
        Kind("tone", tuple(TONES), ("What is the tone of the shape?", "Which tone does it have?"), weight=0.7),
        Kind("texture", TEXTURES, ("What is the texture?", "How is the surface filled?")),
        Kind("fill", ("filled", "hollow"), ("Is the shape filled or hollow?", "Which is it?"), weight=0.5),
        Kind("edge", EDGES, ("What is the edge like?", "Describe the outline.")),
        Kind("size", tuple(SIZES), ("How large is the shape?", "Which size is it?"), weight=0.4),
        Kind("place", PLACES, ("Where is the shape?", "What is the position of the object?")),
        Kind(
            "gap",
            ("closed outline", "broken outline"),
            ("Is the outline complete?", "Which kind of outline is this?"),
            weight=1.3,
        ),
        Kind("mark", MARKS, ("What is inside the shape?", "What does the shape contain?"), weight=4),
        Kind("stripe", STRIPES, ("Which direction do the stripes have?", "How do the lines run?"), weight=3),
        Kind("count", COUNTS, ("How many objects are there?", "What is the number of shapes?"), weight=0.6),
        Kind(
            "boxed shape",
            SHAPES,
            ("What is in the red box?", "What does the red box show?", "Which shape does the red box mark?"),
            weight=1.2,
        ),
        Kind(
            "boxed tone",
            tuple(TONES),
            ("Which tone is in the red box?", "What is the tone of the marked object?"),
            weight=0.8,
        ),
        Kind(
            "boxed texture",
            (*TEXTURES, "hollow"),
            ("How is the object in the red box filled?", "What is the texture in the red box?"),
        ),
        Kind("box place", PLACES, ("Where is the red box?", "What is the position of the red box?"), weight=0.8),
        Kind("present", SHAPES, ("Which of these shapes is in the picture?", "What do you see?"), weight=0.9),
        Kind("tone of", tuple(TONES), ("What is the tone of the {}?", "The {} is of which tone?"), weight=3),
        Kind("place of", PLACES, ("Where is the {}?", "What is the position of the {}?"), weight=2.5),
        Kind("pose", POSES, ("What is the direction of the figure?", "How does the figure lie?"), weight=2),
        Kind("way", DIRECTIONS, ("Where does the round end point?", "Which way does the figure point?")),
        Kind(
            "side",
            ("left", "right", "above", "below"),
            ("On which side is the mark?", "Where is the mark?"),
            weight=1.3,
        ),
        Kind(
            "side mark",
            ("dots", "line", "triangle"),
            ("What is the mark beside the body?", "Which mark does the figure have?"),
            weight=1.2,
        ),
        Kind(
            "boxed mark",
            MARKS[1:],
            ("What is in the red box?", "What does the red box show?", "Which mark is in the red box?"),
            weight=2,
        ),
        Kind("inner count", COUNTS[:4], ("How many things are inside?", "How many marks are inside?")),
        Kind(
            "inner place",
            tuple(PLACES[i] for i in (0, 2, 6, 8)),
            ("Where inside is the {}?", "In which corner is the {}?"),
            weight=4,
        ),
        Kind(
            "outer shape",
            ("circle", "oval", "square"),
            ("Which shape is the outer outline?", "What is the large shape?"),
            weight=0.8,
        ),
    )
}
"""Kind name -> kind. `{}` stands for the object that is asked about."""


def _fact(kind: str, answer: str, answers: tuple[str, ...] | None = None) -> Fact:
    return Fact(kind, answer, KINDS[kind.split(":")[0]].answers if answers is None else answers)


def _single(thing: Thing) -> list[Fact]:
    facts = [_fact("shape", thing.shape), _fact("size", thing.size)]
    if thing.size != "large":
        facts.append(_fact("place", PLACES[thing.place]))
    if thing.surface in ("plain", "hollow"):
        facts.append(_fact("tone", thing.tone))
        facts.append(_fact("fill", "filled" if thing.surface == "plain" else "hollow"))
        if thing.shape in ("circle", "oval", "square") and thing.size == "large":
            facts.append(_fact("edge", thing.edge))
        if thing.size == "large" and thing.shape in ("circle", "oval", "square", "diamond", "heart"):
            facts.append(_fact("mark", thing.mark))
    if thing.surface == "hollow":
        if thing.size != "small":
            facts.append(_fact("gap", "closed outline" if thing.closed else "broken outline"))
    elif thing.size != "small":
        facts.append(_fact("texture", thing.surface))
    if thing.stripe:
        facts.append(_fact("stripe", thing.stripe))
    return facts


def _several(scene: Scene) -> list[Fact]:
    things = scene.things
    facts = [_fact("count", COUNTS[len(things) - 1])]
    shapes = [thing.shape for thing in things]
    absent = tuple(shape for shape in SHAPES if shape not in shapes)
    if scene.boxed is not None:
        boxed = things[scene.boxed]
        facts += [_fact("boxed shape", boxed.shape), _fact("box place", PLACES[boxed.place])]
        if boxed.surface in ("plain", "hollow"):
            facts.append(_fact("boxed tone", boxed.tone))
        facts.append(_fact("boxed texture", boxed.surface))
    present = things[0].shape
    facts.append(_fact("present", present, (present, *absent)))
    for thing in things:
        if shapes.count(thing.shape) == 1 and 1 < len(things) <= NAMEABLE:
            facts.append(_fact(f"place of:{thing.shape}", PLACES[thing.place]))
            if thing.surface in ("plain", "hollow"):
                facts.append(_fact(f"tone of:{thing.shape}", thing.tone))
            break
    return facts


def _nested(scene: Scene) -> list[Fact]:
    outer, *inner = scene.things
    facts = [_fact("outer shape", outer.shape), _fact("inner count", COUNTS[len(inner) - 1])]
    facts.append(_fact("edge", outer.edge))
    if outer.surface == "hollow" and outer.edge != "jagged":
        facts.append(_fact("gap", "closed outline" if outer.closed else "broken outline"))
    if scene.boxed is not None:
        facts.append(_fact("boxed mark", scene.things[scene.boxed].shape))
    names = [thing.shape for thing in inner]
    for thing in inner:
        if names.count(thing.shape) == 1 and thing.place >= 0:
            facts.append(_fact(f"inner place:{thing.shape}", PLACES[thing.place]))
            break
    return facts


def facts_of(scene: Scene) -> list[Fact]:
    """All facts of a scene that can be asked for, one a kind.

    `kind` of a fact about a named object is `kind:object`.
    """
    if scene.layout == "single":
        return _single(scene.things[0])
    if scene.layout == "several":
        return _several(scene)
    if scene.layout == "nested":
        return _nested(scene)
    way, side = scene.facts["points"], scene.facts["side"]
    # Options of one pose question share the axis, so that each of its parts decides.
    axis = POSES[:4] if way in ("up", "down") else POSES[4:]
    sides = ("left", "right") if way in ("up", "down") else ("above", "below")
    return [
        _fact("pose", f"points {way}, mark {side}", axis),
        _fact("way", way),
        _fact("side", side, sides),
        _fact("side mark", scene.facts["marks"]),
    ]
