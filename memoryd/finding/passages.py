"""Find the passage of each candidate that answers a search best, and the factors of its score that depend on it."""

from collections.abc import Collection, Mapping
from functools import partial

from memoryd.finding.source_texts import SourceTexts
from memoryd.ledger.lane import Lane, lanes_of_text
from memoryd.recall import answers
from memoryd.recall.chunks import below_headings
from memoryd.recall.documents import Speaker
from memoryd.recall.ranking import FACT, SESSION, Candidate
from memoryd.recall.snippet import Passage, find_passage
from memoryd.recall.words import is_stop_word
from memoryd.text.sentences import split
from memoryd.transcripts.turn import Origin

_BESIDE = 0.5  # the weight of a word beside a text, such as in a neighbouring turn, relative to a word in it
_TYPED = 20_000  # characters; a longer message counts as pasted
PASTED = "user (pasted)"  # the author of a passage that a person has pasted, at least partly
CALL = "assistant (tool call)"  # the author of the call of a tool, which is no speech


class Passages:
    """Find the passages of candidates in their present texts, each once."""

    def __init__(self, sources: SourceTexts, weights: Mapping[str, float], question: str) -> None:
        self.sources = sources
        self.near: dict[int, float] = {}  # the similarity of meaning, by candidate id
        self._weights = weights
        self._wanted = answers.list_wanted(question)
        self.asked = answers.find_asked(question)  # the speaker whose words the question asks for
        self._found: dict[int, Passage] = {}

    def get(self, candidate: Candidate) -> Passage:
        """Return the best passage of a candidate; an empty one if its text is gone or has changed."""
        if candidate.id not in self._found:
            by_user = candidate.voice is Speaker.PERSON
            rate = partial(answers.weigh_form, wanted=self._wanted, by_user=by_user)
            self._found[candidate.id] = find_passage(self.read(candidate), self._weights, rate, answers.FITS)
        return self._found[candidate.id]

    def read(self, candidate: Candidate) -> str:
        """Return the text of a candidate as it is shown; a part of a file comes without its headings."""
        text = self.sources.show_text(candidate)
        return text if candidate.tier in {SESSION, FACT} else below_headings(text)

    def find_speaker(self, candidate: Candidate) -> str | None:
        """Return the author of a turn's passage: a value of `Origin`, `PASTED` or `CALL`; None for other documents."""
        origin = CALL if candidate.voice is Speaker.CALL else self.sources.origin(candidate) or None
        if origin != Origin.USER:
            return origin
        text = candidate.shown or self.sources.text(candidate) or ""
        if len(text) > _TYPED:
            return PASTED
        parts = split(text)
        own, end = "", 0
        for part, lane in zip(parts, lanes_of_text(text, parts, Lane.USER), strict=True):
            own += text[end : part.end] if lane is Lane.USER else "\0"
            end = part.end
        shown = " ".join(self.get(candidate).text.strip("… ").split())
        return origin if shown in " ".join(own.split()) else PASTED

    def weigh(self, candidate: Candidate) -> float:
        """Return the factor of a candidate's score that depends on its text and the question."""
        passage = self.get(candidate)
        return (1 + passage.worth) * min(1.0, passage.form) * self.weigh_kind(candidate)

    def weigh_kind(self, candidate: Candidate) -> float:
        """Return the factor of a candidate's score that depends on the kind of its text."""
        if self.sources.text(candidate) is None:
            return 1.0
        if candidate.tier == SESSION:
            text = self.read(candidate)
            return answers.weigh_length(text, candidate.voice, self.asked) * answers.weigh_end(text)
        return 1.0 if candidate.tier == FACT else answers.weigh_section(self.sources.heading(candidate))

    def measure_relevance(self, candidate: Candidate, matched: Collection[str]) -> float:
        """Return the relevance of a candidate, from 0 to 1.

        It is the share of the question that the candidate contains, with a weight for each word, or the similarity of
        its meaning if that is larger. `matched` has the words of the question that occur in the text or beside it.
        """
        weights = {word: weight for word, weight in self._weights.items() if not is_stop_word(word)}
        own = self.get(candidate).held
        held = sum(
            weight if word in own else weight * _BESIDE
            for word, weight in weights.items()
            if word in own or word in matched
        )
        return max(held / sum(weights.values()) if weights else 0.0, self.near.get(candidate.id, 0.0))
