"""Where a sentence announces an answer: "the answer is", "I choose", "therefore", in a few languages."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(
    r"\b(?:answers?|ans|choice|option|selection|response|pick|verdict|prediction|antwort|antwoord|réponse|respuesta|"
    r"resposta|risposta|svar|odpowied[źz]|cevap|yanıt|ответ|lösung|(?:correct|right)\s[\w-]{1,30})\b|"
    r"答案|答え|正解|回答|정답|답",
    re.I,
)
_LINK = re.compile(
    r"[:=→]|\s-\s|\b(?:is|are|was|'s|would be|should be|must be|will be|could be|might be|may be|has to be|"
    r"appears to be|seems to be|remains|(?:corresponds?|corresponding|belongs|equals?|equivalent) to|ist|lautet|est|es|"
    r"è|é|är|jest)\b|是|为|為|は|은|는",
    re.I,
)
_SHORT_HEAD = re.compile(
    r"(?:^|[.!;]\s|-\s)(?:final|correct|result|conclusion|choose|select|selected)\s?:\s?|选择?(?!项)|選", re.I
)
_CHOOSE = re.compile(
    r"\b(?:I|we)(?:'d|'ll|'m|'ve)?(?:\s(?:would|will|am|have|can|do|must|shall|therefore|thus|then|so|finally|also|"
    r"now|really|have to|had to|going to|want to|need to)){0,4}\s(?:choos(?:e|ing)|chose|chosen|select(?:ed|ing)?|"
    r"pick(?:ed|ing)?|answer(?:ed)?|go(?:ing)?(?: with| for)|went with|opt(?:ed|ing)? for|vote for|guess|say|"
    r"lean(?:ing)? towards?|settled? on|conclude|believe|think)(?:\s(?:that|it is|it's|it must be|this is))?\s?:?",
    re.I,
)
_CONCLUDE = re.compile(
    r"(?:^|[,;.]\s)(?:(?:therefore|thus|hence|so|in conclusion|conclusion|overall|ultimately|finally|consequently|"
    r"final|it is|it's|this is|that's|it must be)[,:]?|(?:wait|actually|no|correction)[,:])\s",
    re.I,
)
_RIGHT_THERE = re.compile(r"\s?(?:choice|option|letter|number|key|here|\(s\))?\s?", re.I)


@dataclass(frozen=True, slots=True)
class Announcement:
    """A place where an announced answer may begin.

    Attributes:
        end: Position after the announcement.
        of_answer: Whether it says that the answer follows ("the answer is"), not that a clause does ("therefore").
    """

    end: int
    of_answer: bool


def announcements(text: str) -> list[Announcement]:
    """Announcements in a sentence, the likeliest first.

    That is the last one, and of its links the nearest: "the answer is B and the reason is that ...".
    """
    found: list[tuple[int, list[Announcement]]] = []
    for head in list(_HEAD.finditer(text))[-8:]:
        links = list(_LINK.finditer(text, head.end(), head.end() + 160))[:6]
        found.append((head.start(), [Announcement(link.end(), _says_answer(text, head, link)) for link in links]))
    for pattern in (_SHORT_HEAD, _CHOOSE, _CONCLUDE):
        for match in list(pattern.finditer(text))[-4:]:
            found.append((match.start(), [Announcement(match.end(), False)]))
    return [place for _, places in sorted(found, key=lambda head: -head[0]) for place in places]


def _says_answer(text: str, head: re.Match[str], link: re.Match[str]) -> bool:
    between = text[head.end() : link.start()]
    return not link[0].endswith("to") and _RIGHT_THERE.fullmatch(between) is not None
