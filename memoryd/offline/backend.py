"""The offline backend: answers a job's question by choosing from the material, with no model, key or network.

It writes whole sentences as they were said, each with the id it is cited by, in the grammar a model would use, so they
pass the same judging. Which ones: `salience` for the summary, `lasting` for memories. In the summary a relative date
gets the day it means beside it, reckoned from the time of its own turn.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

from memoryd.jobs import facts_reply, reply
from memoryd.jobs.duplicates import KnownTexts
from memoryd.jobs.evidence import REPORT
from memoryd.jobs.job import Ask, MemoryType, NewMemory, QuotedPiece, Reply
from memoryd.jobs.reports import CHANGED, FAILED, MENDED
from memoryd.jobs.signals import Signal, says_nothing, takes_back
from memoryd.ledger import dates, unfinished
from memoryd.ledger.facts import Category
from memoryd.offline import condense, cues, dreaming, lasting, salience, words
from memoryd.offline.sentences import is_question, number_sentences, split_sentences
from memoryd.offline.statements import LABEL_WORDS, UNIT_WORDS, ConversationMessage, Statement, list_statements
from memoryd.text import normal, prose
from memoryd.text.neutral import neutralize
from memoryd.text.sentences import quote_around
from memoryd.transcripts.turn import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BACKEND = "offline"
FACTS, DREAM = "facts", "dream"  # the jobs whose questions have grammars of their own
_CATEGORIES = {MemoryType.PREFERENCE: Category.PREFERENCE, MemoryType.FACT: Category.CONTEXT}
_LISTED = re.compile(r"^fact_\w+ \[[^\]]*\] ")
_REPORTER = "Report"  # who speaks where only a subagent does
_USER = "User: "
_UNNAMED = frozenset({"User", "Assistant", _REPORTER})  # people who talk among themselves have names
_DEFAULT_WORDS = 400
# Of one run, but for what the user wishes or decides: junk in the core is worse than a memory that waits.
_MOST_MEMORIES = 6
_ASKED_FOR = 0.9  # importance from which the user asked in so many words that it be kept
_LONGEST_LINE = 700  # characters; more of one message goes on a line of its own
_LEAST_UNIT = 12  # words; where there is room for few words, messages are read in smaller pieces
_MOST_FILES = 12
_MOST_FAILURES = 4
_NAMED = re.compile(r"^\s{0,3}([^\W\d_][^\W\d_'’.-]*(?: [^\W\d_][\w'’.-]*){0,2}):\s+")  # noqa: RUF001
_NO_NAME_LIST = "report note warning error todo example ps nb fix http https update edit system"
_NO_NAMES = frozenset(_NO_NAME_LIST.split())
_CHARS_PER_TOKEN = 4
_OF_FAILURES_LIST = """
error errors fail failed failure fails assert assertion assertionerror exception valueerror typeerror
keyerror test tests file line code run fixed now pass passes works src lib main index app expected got
"""
_OF_FAILURES = frozenset(map(words.key_of, _OF_FAILURES_LIST.split()))  # words that many failures share


def answer(ask: Ask) -> Reply:
    """Return the reply to `ask`; the same question gets the same bytes."""
    if ask.job in condense.JOBS:
        return condense.answer(ask)
    text = _ANSWERS.get(ask.job, _sleep)(ask)
    asked = sum(len(quoted.text) for quoted in ask.material) // _CHARS_PER_TOKEN
    return Reply(text, "stop", BACKEND, tokens_in=asked, tokens_out=len(text) // _CHARS_PER_TOKEN)


def _sleep(ask: Ask) -> str:
    given = dict(ask.context)
    limit = int(given.get("words", _DEFAULT_WORDS))
    facts = [quoted for quoted in ask.material if _is_fact(quoted)]
    spoken = [quoted for quoted in ask.material if not _is_fact(quoted)]
    known = given.get("known", "").splitlines()
    said = _news(_read_messages(spoken), KnownTexts(known))
    days = {quoted.id: _day(quoted) for quoted in spoken}
    working = _is_working(ask.material, said)
    deciding = working or not any(one.speaker not in _UNNAMED for one in said)
    raw = {quoted.id: quoted.text for quoted in spoken}
    found = _memories(said, raw, KnownTexts(known), working=deciding)
    memories = _select_important(found, limit // 3)
    limit -= min(limit // 3, sum(prose.count_words(memory.text) + 1 for memory in memories))
    rest, left = _split_open_points(said, days, limit // 2)
    reports = _reports(_still_failing(facts, said), limit // 3)
    limit -= _words((*left, *reports))
    lines = [told for told in (*_summary(rest, days, limit, working=working), *left, *reports) if told.text]
    told = sorted(lines, key=lambda one: one.sources[0])
    return reply.render(_with_left(told, left), memories)


def _facts(ask: Ask) -> str:
    """Return what the user said that lasts, as facts; where they corrected something, as a correction."""
    given = dict(ask.context)
    corrected = {line.split()[0] for line in given.get("hints", "").splitlines() if Signal.CORRECTION in line.split()}
    facts = {line.split()[0]: _LISTED.sub("", line) for line in given.get("known facts", "").splitlines()}
    known = KnownTexts(facts.values())
    offered, removals = [], []
    for quoted in ask.material:
        for number, sentence in number_sentences(quoted.text) if quoted.origin == Origin.USER else ():
            ended = tuple(name for name, fact in facts.items() if takes_back(sentence, fact))
            removals += [facts_reply.FactRemoval(name, (quoted.id,)) for name in ended]
            cue = lasting.find_cue(sentence, by_user=True, working=False)
            text = neutralize(quote_around(quoted.text, (number,))) if cue and cue.type in _CATEGORIES else ""
            if cue and text and not known.says(text):
                known.add(text)
                category = Category.CORRECTION if quoted.id in corrected else _CATEGORIES[cue.type]
                offered.append(
                    facts_reply.OfferedFact(text, category, cue.importance, (f"{quoted.id}.{number}",), ended)
                )
    return facts_reply.render(offered, removals)


def _is_fact(quoted: QuotedPiece) -> bool:
    return quoted.origin == REPORT and quoted.text.startswith((CHANGED, FAILED))


def _read_messages(spoken: Sequence[QuotedPiece]) -> list[ConversationMessage]:
    named = Counter(found[1] for quoted in spoken if (found := _NAMED.match(quoted.text)))
    least = max(2, len(spoken) // 6)  # a name stands before most of its speaker's messages, a heading before few
    names = {name for name, n in named.items() if n >= least and name.casefold() not in _NO_NAMES}
    out = []
    for quoted in spoken:
        found = _NAMED.match(quoted.text)
        speaker, text = (_REPORTER if quoted.origin == REPORT else quoted.role.capitalize()), quoted.text
        if speaker != _REPORTER and found and found[1] in names:
            speaker, text = found[1], text[found.end() :]
        told = number_sentences(quoted.text)
        if (
            text != quoted.text
            and told
            and (rest := " ".join(split_sentences(told[0].text.removeprefix(f"{speaker}:"))))
        ):
            told[0] = told[0]._replace(text=rest)
        out.append(ConversationMessage(quoted.id, speaker, quoted.role == "user", text, tuple(told)))
    return out


def _news(said: Sequence[ConversationMessage], known: KnownTexts) -> list[ConversationMessage]:
    """Return what is said without the sentences that the memory has already."""
    return [one._replace(sentences=tuple(part for part in one.sentences if not known.says(part.text))) for one in said]


def _day(quoted: QuotedPiece) -> date | None:
    try:
        return date.fromisoformat(quoted.at[:10]) if quoted.at else None
    except ValueError:
        return None


def _is_working(material: Sequence[QuotedPiece], said: Sequence[ConversationMessage]) -> bool:
    """Return True if the assistant works or lectures for the user, rather than talking with them as an equal."""
    own = [one.text for one in said if one.by_user]
    reported = any(quoted.origin == REPORT for quoted in material)
    return reported or lasting.is_lecturing(own, [one.text for one in said if not one.by_user])


def _with_date(text: str, day: date | None) -> str:
    return dates.annotate(text, day) if day else text


def _summary(
    said: Sequence[ConversationMessage], days: dict[str, date | None], limit: int, *, working: bool
) -> list[reply.SummaryLine]:
    seen: set[str] = set()
    candidates = []
    for line in list_statements(said, working=working, unit_words=max(_LEAST_UNIT, min(UNIT_WORDS, limit))):
        folded = f"{line.speaker}: {normal.normalize(line.text)}"
        if folded not in seen:
            seen.add(folded)
            day = days[line.id]
            candidates.append(line._replace(cost=line.cost + (len(dates.find(line.text, day)) if day else 0)))
    chosen = salience.choose(candidates, limit, working=working)
    asked = [f" (asked: {line.asked})" if line.asked else "" for line in chosen]
    return _join_statements(
        [
            line._replace(text=neutralize(f"{line.speaker}: {_with_date(line.text, days[line.id])}{question}"))
            for line, question in zip(chosen, asked, strict=True)
        ]
    )


def _split_open_points(
    said: Sequence[ConversationMessage], days: dict[str, date | None], limit: int
) -> tuple[Sequence[ConversationMessage], list[reply.SummaryLine]]:
    """Return the lines of what the last answer tells as open or not kept, within `limit` words, and the rest of `said`.

    An earlier answer's may be done by now. Each label with what follows it is a line.
    """
    spoken = (at for at, one in enumerate(said) if not one.by_user and one.speaker != _REPORTER)
    last = max((at for at in spoken if not says_nothing(said[at].text)), default=None)
    if last is None:
        return said, []
    one = said[last]
    found = _open_sentences(one)
    groups: list[str] = []
    for sentence in found:
        text = _with_date(sentence if sentence[-1:] in cues.ENDS else f"{sentence}.", days[one.id])
        begins = not groups or unfinished.find_label(sentence) is not None
        cost = prose.count_words(text) + (LABEL_WORDS + 1 if begins else 0)
        if cost > limit:
            continue
        limit -= cost
        groups[len(groups) - (not begins) :] = [text if begins else f"{groups[-1]} {text}"]
    rest = one._replace(sentences=tuple(part for part in one.sentences if part.text not in found))
    told = [reply.SummaryLine((int(one.id[1:]),), neutralize(f"{one.speaker}: {text}")) for text in groups]
    return [*said[:last], rest, *said[last + 1 :]], told


def _with_left(told: Sequence[reply.SummaryLine], left: Sequence[reply.SummaryLine]) -> list[reply.SummaryLine]:
    """Return `told` with what is left on the line that has the rest of its answer."""
    lines: list[reply.SummaryLine] = []
    for one in told:
        speaker, _, text = one.text.partition(": ")
        before = lines[-1] if lines else None
        if (
            before
            and one in left
            and one.sources[-1] == before.sources[-1]
            and before.text.startswith(f"{speaker}: ")
            and len(before.text) + len(text) < _LONGEST_LINE
        ):
            lines[-1] = reply.SummaryLine(before.sources, f"{before.text} {text}", before.cites)
        else:
            lines.append(one)
    return lines


def _open_sentences(one: ConversationMessage) -> list[str]:
    found: list[str] = []
    is_list = False  # a line that is only a label begins what is open
    for sentence in split_sentences(unfinished.with_labels(one.text)):
        if (is_list or unfinished.is_left(sentence)) and not is_question(sentence):
            found.append(sentence)
        is_list = is_list or unfinished.is_label(sentence)
    return found


def _join_statements(chosen: Sequence[Statement]) -> list[reply.SummaryLine]:
    """Return one line for each message: what was taken of it, in order."""
    told: list[reply.SummaryLine] = []
    before: Statement | None = None
    for line in chosen:
        asked = (line.asked_id,) if line.asked else ()
        sources = tuple(int(one[1:]) for one in (*asked, line.id))
        cites = (*asked, *(f"{line.id}.{number}" for number in line.numbers))
        if before and before.turn == line.turn and len(told[-1].text) + len(line.text) < _LONGEST_LINE:
            text = f"{told[-1].text} {line.text.removeprefix(f'{line.speaker}: ')}"
            sources = tuple(sorted({*told[-1].sources, *sources}))
            told[-1] = reply.SummaryLine(sources, text, tuple(dict.fromkeys((*told[-1].cites, *cites))))
        else:
            told.append(reply.SummaryLine(sources, line.text, cites))
        before = line
    return told


def _memories(
    said: Sequence[ConversationMessage], raw: Mapping[str, str], known: KnownTexts, *, working: bool
) -> list[NewMemory]:
    """Return what lasts: of the user the words around it, copied whole; of the assistant the sentence."""
    found: dict[str, NewMemory] = {}
    for one in said:
        for number, sentence in one.sentences if one.speaker != _REPORTER else ():
            cue = lasting.find_cue(sentence, by_user=one.by_user, working=working)
            words_of = neutralize(quote_around(raw[one.id], (number,)) if one.by_user else sentence) if cue else ""
            text = words_of if words_of.startswith(f"{one.speaker}:") else f"{one.speaker}: {words_of}"
            if cue and words_of and not known.says(text):
                held = found.get(text) or NewMemory(cue.type, 0.0, text, (int(one.id[1:]),))
                kind = cue.type if cue.importance > held.importance else held.type
                cites = (*held.cites, f"{one.id}.{number}")
                found[text] = NewMemory(kind, max(cue.importance, held.importance), text, held.sources, cites)
    return list(found.values())


def _select_important(found: list[NewMemory], limit: int) -> list[NewMemory]:
    """Return the most important memories within `limit` words, in order.

    What the user wishes or decides is kept in any case.
    """
    kept = []
    for place, memory in enumerate(sorted(found, key=lambda memory: (-memory.importance, memory.sources))):
        limit -= prose.count_words(memory.text) + 1
        is_wanted = memory.type in {MemoryType.PREFERENCE, MemoryType.DECISION} and memory.text.startswith(_USER)
        has_room = place < _MOST_MEMORIES and (limit >= 0 or memory.type is MemoryType.PREFERENCE)
        if has_room or is_wanted or memory.importance >= _ASKED_FOR:
            kept.append(memory)
    return sorted(kept, key=lambda memory: memory.sources)


def _still_failing(facts: Sequence[QuotedPiece], said: Sequence[ConversationMessage]) -> list[QuotedPiece]:
    """Return the facts without failures that passed later, or that the assistant later called fixed."""
    fixes = [
        (int(one.id[1:]), frozenset(words.list_content_words(sentence.text)) - _OF_FAILURES)
        for one in said
        for sentence in (() if one.by_user or one.speaker == _REPORTER else one.sentences)
        if cues.FIXED.search(sentence.text.lower())
    ]

    def is_mended(fact: QuotedPiece) -> bool:
        own = {key for key in words.list_content_words(fact.text) if key.isalpha()}
        return fact.text.endswith(MENDED) or any(seq > int(fact.id[1:]) and own & about for seq, about in fixes)

    return [fact for fact in facts if not fact.text.startswith(FAILED) or not is_mended(fact)]


def _reports(material: Sequence[QuotedPiece], limit: int) -> list[reply.SummaryLine]:
    """Return one line with the files changed and one for each of the last failures, within `limit` words."""
    files: dict[str, int] = {}
    failures: list[reply.SummaryLine] = []
    for quoted in material:
        seq = int(quoted.id[1:])
        if quoted.text.startswith(CHANGED):
            files |= {path: files.get(path, seq) for path in re.findall(r"`([^`]+)`", quoted.text)}
        elif quoted.text.startswith(FAILED):
            failures.append(reply.SummaryLine((seq,), f"Failed: {quoted.text.removeprefix(FAILED)}"))
    last = failures[-_MOST_FAILURES:][::-1]
    told = last[:1] if _words(last[:1]) <= limit else []
    if files:
        shown = list(files)[:_MOST_FILES]
        names = ", ".join(f"`{path}`" for path in shown)
        told.append(reply.SummaryLine(tuple(dict.fromkeys(files[path] for path in shown)), f"Changed: {names}"))
    for failure in last[1:]:
        if _words((*told, failure)) <= limit:
            told.append(failure)
    return told


def _words(told: Sequence[reply.SummaryLine]) -> int:
    return sum(prose.count_words(one.text) + 1 for one in told)


_ANSWERS = {FACTS: _facts, DREAM: dreaming.write_dream}
