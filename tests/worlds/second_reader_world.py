"""A model server that judges claims as a second reader, and knows the answers of the calibration set."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import resources

from chat_server import refuse, speak

from memoryd.jobs.pieces import CitableSentence
from memoryd.jobs.reader import Question, Subject
from memoryd.ledger.lane import Lane

CALIBRATION = json.loads(resources.files("memoryd.jobs").joinpath("calibration.json").read_text("utf-8"))
SAID = {
    "Linter runs come before commits.": "Always run the linter before a commit of the parser.",
    "Marvin hosts the database.": "Our database is Postgres and it runs on the host named Marvin.",
}


QUESTIONS = tuple(
    Question(Subject.SUPPORT, claim, (CitableSentence(f"t{number}.1", text, Lane.USER, "user"),))
    for number, (claim, text) in enumerate(SAID.items(), 1)
)


def shown(request):
    """The questions of a second reader's message; None of any other."""
    system, user = request.json["messages"][:2]
    if not system["content"].startswith("Check memory claims."):
        return None
    _head, fenced, *more = user["content"].split("```")
    assert not more[1:]
    return json.loads(fenced.removeprefix("json"))


def told(question):
    return question["claim"], tuple(one["text"] for one in question["evidence"]), bool(question.get("replaces"))


TRUTH = {told(one): one["verdict"] for one in CALIBRATION} | {(c, (s,), False): "supported" for c, s in SAID.items()}


def sound(question):
    return TRUTH.get(told(question), "not-said")


def credulous(question):
    return "newer-value" if question.get("replaces") else "supported"


def last_label(_question):
    return "only-planned"


@dataclass
class Model:
    """Writes one line as an author, and judges claims by `judge`; asked for either it may be down."""

    judge: object = staticmethod(sound)
    down: bool = False
    author: list = field(default_factory=list)
    verified: list = field(default_factory=list)

    def __call__(self, connection, request):
        if request.line.startswith("GET"):  # the list of models, for doctor
            refuse("404 Not Found")(connection, request)
            return
        questions = shown(request)
        if questions is None:
            self.author.append(request)
        else:
            self.verified.append(request)
            if self.down:
                refuse("503 Service Unavailable")(connection, request)
                return
        lines = [json.dumps({"id": one["id"], "verdict": self.judge(one)}) for one in questions or ()]
        connection.head()
        connection.send(speak("\n".join(lines) if lines else "what the author writes"))

    @property
    def tests(self):
        """Requests about the calibration set."""
        known = {one["claim"] for one in CALIBRATION}
        return [one for one in self.verified if {item["claim"] for item in shown(one)} <= known]
