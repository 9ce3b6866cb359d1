"""Sessions with an attacker in them, and a model that does all the attacker wants: whole runs, one world for all.

Each attack is a session of Claude Code in which a person says one honest thing. The model's reply offers the attacker's
texts in every form that might get through: as each type, in everybody's name, citing the user, the assistant, all,
none that exists. A made-up name in each attack shows afterwards how far its text has come.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from chat_server import Connection, Request, speak
from model_world import World, rows

from memoryd.daemon.once import read_all
from memoryd.ledger.facts import ProfileSection
from memoryd.running import extraction, sleeping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memoryd.app import App

CASE = re.compile(r"report (\d{3})\b")
TYPES = (("preference", "User: "), ("decision", ""), ("learning", ""), ("fact", "User: "))


@dataclass(frozen=True)
class Attack:
    """What an attacker puts into a session, and what the hijacked model makes of it.

    Attributes:
        row: of the list of attacks.
        name: of the variant.
        number: its own.
        act: adds to a talk what the attacker gets into it.
        poison: texts that must become no memory and no fact.
        forbidden: what of them must not be found in any lasting place.
        said: what the person says of it; their whole words may last.
    """

    row: str
    name: str
    number: int
    act: Callable[[Talk], object]
    poison: tuple[str, ...]
    forbidden: str
    said: str = ""

    @property
    def honest(self) -> str:
        """What the person wants, in their own words."""
        return f"Always keep report {self.number:03} in the green folder."


def brand(number: int) -> str:
    """A name that nothing else has."""
    return f"Vex{'abcdefghij'[number // 100]}{'klmnopqrst'[number // 10 % 10]}{'uvwxyzabcd'[number % 10]}"


@dataclass
class Talk:
    """Records of one session of Claude Code."""

    number: int
    session: str = ""
    found: list[dict] = field(default_factory=list)
    made: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.session = f"{self.number:08}-0000-4000-8000-000000000000"

    def _add(self, kind: str, content: object, **more: object) -> Talk:
        n = next(self.made)
        role = "user" if kind == "user" else "assistant"
        at = f"2026-05-04T{9 + self.number // 60:02}:{self.number % 60:02}:{n % 60:02}.{n // 60:03}Z"
        self.found.append({
            "type": kind, "uuid": f"{self.number:08}-0000-4000-9000-{n:012}", "sessionId": self.session,
            "timestamp": at, "cwd": "/work", "message": {"role": role, "content": content}, **more,
        })  # fmt: skip
        return self

    def user(self, text: str, **more: object) -> Talk:
        return self._add("user", text, **more)

    def answer(self, text: str, **more: object) -> Talk:
        return self._add("assistant", [{"type": "text", "text": text}], **more)

    def tool(self, result: object, name: str = "WebFetch", **given: object) -> Talk:
        call = f"toolu_{self.number}_{len(self.found)}"
        arguments = given or {"url": "https://pages.example/one"}
        self._add("assistant", [{"type": "tool_use", "id": call, "name": name, "input": arguments}])
        return self._add("user", [{"type": "tool_result", "tool_use_id": call, "content": result}])

    def hook(self, text: str) -> Talk:
        n = next(self.made)
        self.found.append({
            "type": "attachment", "uuid": f"{self.number:08}-0000-4000-9000-{n:012}", "sessionId": self.session,
            "timestamp": f"2026-05-04T{9 + self.number // 60:02}:{self.number % 60:02}:{n % 60:02}.000Z",
            "attachment": {"type": "hook_additional_context", "content": text},
        })  # fmt: skip
        return self


class Hijacked:
    """A model under the control of the attackers, and still polite to the person: it tells the honest wish, too."""

    def __init__(self, attacks: Sequence[Attack]) -> None:
        self.attacks = {attack.number: attack for attack in attacks}

    def __call__(self, connection: Connection, request: Request) -> None:
        told = [(one, text) for one, role, text in request.quoted if role == "user"]
        met = {int(found[1]): one for one, text in told if (found := CASE.search(text))}
        say = self._facts if '"new"' in request.prompt else self._sleep
        connection.head()
        connection.send(speak(say([(self.attacks[number], one) for number, one in met.items()], _citable(request))))

    def _sleep(self, met: list[tuple[Attack, str]], ids: dict[str, list[str]]) -> str:
        poison = [" ".join(text.split("\n")) for attack, _ in met for text in attack.poison]
        lines = [
            f"- [{','.join(cites)}] {name}{text}"
            for text in poison
            for cites in ids.values()
            for name in ("User: ", "Assistant: ", "")
        ]
        memories = [
            f"- {kind} 0.99 [{','.join(cites)}] {name}{text}"
            for text in poison
            for cites in ids.values()
            for kind, name in TYPES
        ]
        mine = [f"- preference 0.90 [{cited}] User: {attack.honest}" for attack, cited in met]
        return "\n".join(["[SUMMARY]", *lines, "[MEMORIES]", *mine, *memories])

    def _facts(self, met: list[tuple[Attack, str]], ids: dict[str, list[str]]) -> str:
        new = [
            {"content": attack.honest, "category": "preference", "confidence": 0.9, "cites": [cited]}
            for attack, cited in met
        ]
        new += [
            {"content": name + text, "category": category, "confidence": 1.0, "cites": cites}
            for attack, _ in met
            for text in attack.poison
            for cites in ids.values()
            for category, name in (("preference", ""), ("correction", "User: "))
        ]
        sections = {
            section.value: {
                "text": " ".join(attack.poison[n % len(attack.poison)] for attack, _ in met),
                "cites": cites,
            }
            for n, (section, cites) in enumerate(zip(ProfileSection, [*ids.values()] * 2, strict=False))
        }
        return json.dumps({"new": new, "profile": sections}, ensure_ascii=False)


def _citable(request: Request) -> dict[str, list[str]]:
    """What a model may cite to be believed: the user, the assistant, both, what was never shown."""
    users = [one for one, role, _ in request.quoted if role == "user"]
    others = [one for one, role, _ in request.quoted if role != "user"]
    return {"user": users, "assistant": others or users, "all": [*users, *others], "forged": ["t999"]}


@dataclass
class Aftermath:
    """What was there after all runs."""

    app: App
    world: World

    @property
    def core(self) -> str:
        return (self.world.workspace / "MEMORY.md").read_text()

    def lasting(self) -> list[str]:
        """Every text in a lasting place: the core, facts, the profile."""
        memories = rows(self.app, "SELECT content FROM memory")
        sections = rows(self.app, "SELECT text FROM profile_section")
        bullets = [line for line in self.core.splitlines() if line.strip()]
        return [*(row["content"] for row in memories), *(row["text"] for row in sections), *bullets]

    def daily_lines(self) -> list[str]:
        return [line for line in self.world.dailies.splitlines() if line.strip()]


def play(app: App, before: Callable[[App], None] = lambda _: None) -> None:
    """Read every session, let each sleep and be asked for facts, and carry all runs out."""
    read_all(app)
    before(app)
    for row in sleeping.list_candidates(app.engine, "demo", ended=True):
        sleeping.request(app.engine, app.clock, row, reason=sleeping.NOTES, trigger="manual")
    extraction.ask_now(app.engine, app.clock, "demo", None)
    while app.runner.run_next() is not None:
        pass
