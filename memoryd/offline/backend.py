"""Answer a job's question without a model, key or network: choose sentences from the material.

The reply uses the same grammar as a model's reply. It holds whole sentences as they were said, each with the id by
which it is cited, so the usual checks apply to it. `statements` chooses the sentences of a summary, and `lasting`
chooses memories. In a summary, a relative date gets its day beside it, computed from the time of its own turn.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from memoryd.jobs import facts_reply, reply
from memoryd.jobs.duplicates import KnownTexts
from memoryd.jobs.evidence import NOTE, REPORT
from memoryd.jobs.job import Ask, MemoryType, NewMemory, QuotedPiece, Reply
from memoryd.jobs.reports import CHANGED, FAILED, MENDED
from memoryd.jobs.signals import Signal, takes_back
from memoryd.jobs.work_state import STATE
from memoryd.ledger import dates
from memoryd.ledger.category import Category
from memoryd.ledger.lane import Lane, lanes_of_text
from memoryd.offline import dreaming, lasting, lasting_model, replacement, statements, words, work, work_texts
from memoryd.offline.cues import CUES
from memoryd.offline.sentences import is_question, number_sentences, split_sentences
from memoryd.offline.statements import REPORTER, UNIT_WORDS, ConversationMessage, Statement, list_statements
from memoryd.offline.work_statement import WorkStatement
from memoryd.text import normal, prose
from memoryd.text.content import split_question
from memoryd.text.neutral import neutralize
from memoryd.text.sentences import quote_around, split
from memoryd.text.word_lists import list_words
from memoryd.tiers.daily import PASSING
from memoryd.tiers.session_summary import Section, parse_points
from memoryd.transcripts.turn import Origin

BACKEND = "offline"
FACTS, DREAM = "facts", "dream"  # jobs whose questions need their own form of reply
_CATEGORIES = {MemoryType.PREFERENCE: Category.PREFERENCE, MemoryType.FACT: Category.CONTEXT}
_POINT = re.compile(r"\[(s\d+)\] (.+)")  # matches a point of the summary so far, with its id
_LISTED = re.compile(r"^fact_\w+ \[[^\]]*\] ")
_USER = "User: "
_UNNAMED = frozenset({"User", "Assistant", REPORTER})  # people who talk to each other have names instead
# Programs with which people chat about their lives. In coding sessions, statements in passing are nearly all about the
# work, so the limit for them is higher there. In talks between friends, too many statements are personal.
_CHATTING = frozenset({"", "OpenClaw"})
_DEFAULT_WORDS = 400
# Limits for one run, except for wishes and decisions of the user. A wrong memory in the core is worse than a late one.
_MOST_MEMORIES = 6
_LASTING_SHARE = 0.5  # memories may take this share of the words of the day's text
_MOST_LASTING = 14  # most memories of one sleep that nobody explicitly asked to keep
_OF_DECISION, _OF_LESSON = 0.8, 0.75  # importance of decisions and lessons that the user and the assistant state
_LONGEST_LINE = 700  # characters; a longer message continues on another line
_LEAST_UNIT = 12  # words; if there is room for few words, messages are read in smaller pieces
_MOST_FILES = 12
_MOST_FAILURES = 4
_NAMED = re.compile(r"^\s{0,3}([^\W\d_][^\W\d_'’.-]*(?: [^\W\d_][\w'’.-]*){0,2}):\s+")  # noqa: RUF001
_NO_NAMES = frozenset(list_words("no names"))
# The parts of the project's state, the most important first.
_STATES = "Branch Last commit Pull request Not committed Not pushed Tests Pushed Lint Tasks Earlier commits"
# States that are not reported: the usual branch, and a task list without an open task.
_USUAL = re.compile(r"Branch: `(?:main|master)`|Tasks: (\d+) of \1 done")
_CHARS_PER_TOKEN = 4
# The last run passed, and its command names no file, package or test: `go test ./...`, `mise run test`.
_ALL_PASSED = re.compile(r"Tests: (?:\d+ )?passed(?!.*(?:(?<!\.)/|::|\.\w{2,4}\b| -(?:k|p|t|run)\b))[^`]*`")
_TEST_RUN = re.compile(r"`[^`]*\b(?:tests?\b|pytest|vitest|jest)[^`]*`")  # a command that runs tests
_OF_FAILURES = frozenset(map(words.key_of, list_words("words of failures")))  # words that many failures have in common


def answer(ask: Ask) -> Reply:
    """Return the reply to `ask`. The same question always gets the same bytes."""
    text = _ANSWERS.get(ask.job, _sleep)(ask)
    asked = sum(len(quoted.text) for quoted in ask.material) // _CHARS_PER_TOKEN
    return Reply(text, "stop", BACKEND, tokens_in=asked, tokens_out=len(text) // _CHARS_PER_TOKEN)


def _sleep(ask: Ask) -> str:
    given = dict(ask.context)
    limit = int(given.get("words", _DEFAULT_WORDS))
    first = int(given.get("summary from", "t0")[1:])  # earlier turns are in the question only for the facts
    material = [quoted for quoted in ask.material if int(quoted.id[1:]) >= first]
    facts = _list_facts(material)
    notes = [quoted for quoted in material if quoted.origin == NOTE]
    spoken = [quoted for quoted in material if not _is_fact(quoted) and quoted not in notes]
    known = KnownTexts(given.get("known", "").splitlines())
    said = _news(_read_messages(spoken, _find_names(spoken)), known)
    chatting = given.get("agent", "") in _CHATTING and not _has_reports(material)
    if "agent" in given or _is_working(material, said):
        # In a working session, "Fixed:" begins an answer and is not the name of a speaker.
        said = _news(_read_messages(spoken), known)
        noted = _news(map(_read_note, notes), known)
        failing = _still_failing(facts, said)
        lines, memories = _describe_work(spoken, said, noted, failing, limit, known, chatting=chatting)
    else:
        lines, memories = _describe_talk(spoken, said, limit, known)
    return reply.render(lines, memories, _list_superseded(given.get("summary so far", ""), lines))


def _describe_talk(
    spoken: Sequence[QuotedPiece], said: Sequence[ConversationMessage], limit: int, known: KnownTexts
) -> tuple[list[reply.SummaryLine], list[NewMemory]]:
    """Return the lines about a conversation, without sections, and its lasting memories, within `limit` words."""
    days = {quoted.id: _day(quoted) for quoted in spoken}
    raw = {quoted.id: quoted.text for quoted in spoken}
    deciding = not any(one.speaker not in _UNNAMED for one in said)
    spoken_words = [one for one in said if one.speaker != REPORTER]
    found = _memories(spoken_words, raw, known, {}, working=deciding, chatting=deciding)
    memories = _select_important(found, limit // 3)
    limit -= min(limit // 3, sum(prose.count_words(memory.text) + 1 for memory in memories))
    return [line for line in _summary(said, days, limit) if line.text], memories


def _describe_work(
    spoken: Sequence[QuotedPiece],
    said: Sequence[ConversationMessage],
    noted: Sequence[ConversationMessage],
    facts: Sequence[QuotedPiece],
    limit: int,
    known: KnownTexts,
    *,
    chatting: bool,
) -> tuple[list[reply.SummaryLine], list[NewMemory]]:
    """Return the lines about a working session, by section, and its lasting memories, within `limit` words."""
    reports = _reports(facts, limit // 3)
    own = {quoted.id: _own_sentences(quoted) for quoted in spoken if quoted.role == "user"}
    chosen, told = work.choose_lines(said, own, noted, limit - min(_words(reports), limit // 3))
    chosen = _arrange_lines(chosen, reports)
    requests = (one for one in chosen if one.section is Section.ASKED)
    last = max(requests, key=lambda one: (work.asks_something(one), one.turn), default=None)
    lines = list(map(_work_line, [*(one for one in chosen if one is not last), *told, *filter(None, [last])]))
    # A statement that only notes hold reaches the core later, when a dream reads the daily file.
    limit -= sum(one.cost for one in told)
    # The user's wishes are chosen first, then the best of the other lines.
    raw = {quoted.id: quoted.text for quoted in spoken}
    asked = [one for one in said if one.by_user]
    own_words = _memories(asked, raw, known, work_texts.pair_all(said), working=True, chatting=chatting)
    wishes = _select_important(own_words, limit // 3)
    room = int(limit * _LASTING_SHARE) - sum(prose.count_words(wish.text) + 1 for wish in wishes)
    memories = wishes + _list_lasting(
        _without_jokes(chosen, said), room, KnownTexts(wish.text for wish in wishes), known, chatting=chatting
    )
    return [*(line for line in lines if line.text), *reports], memories


def _arrange_lines(chosen: list[WorkStatement], reports: Sequence[reply.SummaryLine]) -> list[WorkStatement]:
    """Return the lines with mere offers in the order in which they were said, because one may lean on another.

    An answer's results of tests are left out if there is a report of the last test run.
    """
    states = [one for one in chosen if one.section is Section.STATE and work_texts.is_outdated_test(one.text)]
    kept = [one for one in chosen if one not in states or not any(it.text.startswith("Tests: ") for it in reports)]
    offers = [one for one in kept if one.section is Section.OPEN and one.weight < work.OF_OPEN]
    ordered = iter(sorted(offers, key=lambda one: (one.turn, one.numbers)))
    return [next(ordered) if one in offers else one for one in kept]


def _list_superseded(so_far: str, lines: Sequence[reply.SummaryLine]) -> list[reply.SupersededPoint]:
    """Return the points of earlier sleeps that a new line contradicts, each with the ids that the line cites."""
    found = []
    for point in parse_points(so_far).points:
        told = _POINT.fullmatch(point.text) if point.section not in PASSING else None
        later = next((line for line in lines if told and _says_newer(line.text, told[2])), None)
        found += [reply.SupersededPoint(told[1], later.cites)] if told and later else []
    return found


def _says_newer(text: str, point: str) -> bool:
    """Return True if a line contradicts a point; a question contradicts nothing, not even next to its answer."""
    said, _ = split_question(text)
    return not is_question(said) and replacement.is_outdated_by(said, point)


def _own_sentences(quoted: QuotedPiece) -> frozenset[int]:
    """Return the numbers of the sentences of a message that are the user's own words.

    A sentence that follows the user's own words and may be pasted counts as theirs only if it is in the first person.
    """
    parts = split(quoted.text)
    if work_texts.is_choice(quoted.text):
        return frozenset(range(1, len(parts) + 1))
    found: set[int] = set()
    for number, (part, lane) in enumerate(zip(parts, lanes_of_text(quoted.text, parts, Lane.USER), strict=True), 1):
        may_be = lane is Lane.UNKNOWN and number - 1 in found and CUES["self"].search(part.text.lower())
        if lane is Lane.USER or may_be:
            found.add(number)
    return frozenset(found)


def _work_line(one: WorkStatement) -> reply.SummaryLine:
    """Return a statement as a line of the reply. A short answer gets its question in brackets."""
    asked, question = ((one.asked_id,), f" (asked: {one.asked})") if one.asked else ((), "")
    cites = (*asked, *(f"{one.id}.{number}" for number in one.numbers))
    text = neutralize(f"{one.speaker}: {one.text}{question}")
    seqs = tuple(int(name[1:]) for name in (*asked, one.id))
    return reply.SummaryLine(seqs, text, cites, section=one.section, is_earlier=one.is_passed)


def _list_lasting(chosen: Sequence[WorkStatement], limit: int, *known: KnownTexts, chatting: bool) -> list[NewMemory]:
    """Return the lasting statements within `limit` words: the best decisions and findings of any speaker.

    Chats are mostly not about a project, so a statement of a chat also needs a cue.
    """
    found: list[NewMemory] = []
    kinds = {Section.DECIDED: MemoryType.DECISION, Section.FOUND: MemoryType.LEARNING}
    for one in chosen:
        kind = MemoryType.DECISION if one.is_wish and one.section is not Section.OPEN else kinds.get(one.section)
        text = neutralize(f"{one.speaker}: {one.text}")
        cost = prose.count_words(text) + 1
        has_cue = one.is_wish > one.by_user or lasting.find_cue(one.text, by_user=one.by_user, working=True)
        lasts = work.may_last(one) and (not chatting or has_cue)
        if kind is None or cost > limit or not lasts or any(it.says(text) for it in known):
            continue
        limit -= cost
        cites = tuple(f"{one.id}.{number}" for number in one.numbers)
        found.append(NewMemory(kind, _OF_DECISION if one.by_user else _OF_LESSON, text, (int(one.id[1:]),), cites))
        if len(found) == _MOST_LASTING:
            break
    return found


def _facts(ask: Ask) -> str:
    """Return the reply to a question for facts: the user's lasting statements, and the facts that the user has ended.

    A statement that corrected the assistant becomes a correction.
    """
    given = dict(ask.context)
    corrected = {line.split()[0] for line in given.get("hints", "").splitlines() if Signal.CORRECTION in line.split()}
    facts = {line.split()[0]: _LISTED.sub("", line) for line in given.get("known facts", "").splitlines()}
    known = KnownTexts()  # of this reply; the job counts the duplicates of known facts
    offered, removals, before = [], [], ""
    is_chat = given.get("agent", "") in _CHATTING
    spoken = [one for one in ask.material if one.origin == Origin.USER]
    taken_back = lasting_model.find_taken_back([one.text for one in spoken])
    for at, quoted in enumerate(spoken):
        message = "" if lasting_model.announces(before) else quoted.text
        before = quoted.text
        for number, sentence, _ in () if at in taken_back else number_sentences(quoted.text):
            ended = tuple(name for name, fact in facts.items() if takes_back(sentence, fact))
            removals += [facts_reply.FactRemoval(name, (quoted.id,)) for name in ended]
            cue = lasting.find_cue(sentence, by_user=True, working=False, message=message, chatting=is_chat)
            text = neutralize(quote_around(quoted.text, (number,))) if cue and cue.type in _CATEGORIES else ""
            if cue and text and not known.says(text):
                known.add(text)
                category = Category.CORRECTION if quoted.id in corrected else _CATEGORIES[cue.type]
                offered.append(
                    facts_reply.OfferedFact(text, category, cue.importance, (f"{quoted.id}.{number}",), ended)
                )
    return facts_reply.render(offered[: facts_reply.MOST_ITEMS], removals[: facts_reply.MOST_ITEMS])


def _is_fact(quoted: QuotedPiece) -> bool:
    return quoted.origin in {REPORT, NOTE} and quoted.text.startswith((CHANGED, FAILED, STATE))


def _find_names(spoken: Sequence[QuotedPiece]) -> set[str]:
    named = Counter(found[1] for quoted in spoken if (found := _NAMED.match(quoted.text)))
    least = max(2, len(spoken) // 6)  # a speaker's name begins most of their messages, but a heading begins only few
    return {name for name, n in named.items() if n >= least and name.casefold() not in _NO_NAMES}


def _read_messages(spoken: Sequence[QuotedPiece], names: Collection[str] = ()) -> list[ConversationMessage]:
    out = []
    for quoted in spoken:
        found = _NAMED.match(quoted.text)
        speaker, text = (REPORTER if quoted.origin == REPORT else quoted.role.capitalize()), quoted.text
        if speaker != REPORTER and found and found[1] in names:
            speaker, text = found[1], text[found.end() :]
        told = number_sentences(quoted.text)
        if text != quoted.text and told:  # remove the name from the first sentence
            rest = " ".join(split_sentences(told[0].text.removeprefix(f"{speaker}:")))
            told[0] = told[0]._replace(text=rest or told[0].text)
        by_user = quoted.role == "user"
        out.append(ConversationMessage(quoted.id, speaker, by_user, text, tuple(told), quoted.is_acted_on))
    return out


def _read_note(quoted: QuotedPiece) -> ConversationMessage:
    facts = len(split(quoted.text.partition("\n\n")[0])) if _is_fact(quoted) else 0  # the facts of the call come first
    parts = tuple(part for part in number_sentences(quoted.text) if part.number > facts)
    return ConversationMessage(quoted.id, "Assistant", by_user=False, text=quoted.text, sentences=parts)


def _news(said: Iterable[ConversationMessage], known: KnownTexts) -> list[ConversationMessage]:
    """Return the messages without the sentences that memory already holds."""
    return [one._replace(sentences=tuple(part for part in one.sentences if not known.says(part.text))) for one in said]


def _day(quoted: QuotedPiece) -> date | None:
    try:
        return date.fromisoformat(quoted.at[:10]) if quoted.at else None
    except ValueError:
        return None


def _is_working(material: Sequence[QuotedPiece], said: Sequence[ConversationMessage]) -> bool:
    """Return True if the assistant works for the user or explains things at length, instead of chatting as an equal.

    A session with a sentence that is marked as a decision, a finding or the state is also work.
    """
    own, others = [one.text for one in said if one.by_user], [one.text for one in said if not one.by_user]
    is_marked = any(work_texts.find_mark(part.text) for one in said for part in one.sentences)
    return _has_reports(material) or is_marked or lasting.is_lecturing(own, others)


def _has_reports(material: Sequence[QuotedPiece]) -> bool:
    return any(quoted.origin in {REPORT, NOTE} for quoted in material)


def _summary(said: Sequence[ConversationMessage], days: dict[str, date | None], limit: int) -> list[reply.SummaryLine]:
    seen: set[str] = set()
    candidates, taken_back = [], _list_taken_back(said)
    for line in list_statements(said, unit_words=max(_LEAST_UNIT, min(UNIT_WORDS, limit))):
        folded = f"{line.speaker}: {normal.normalize(line.text)}"
        if folded not in seen and line.id not in taken_back:
            seen.add(folded)
            day = days[line.id]
            candidates.append(line._replace(cost=line.cost + (len(dates.find(line.text, day)) if day else 0)))
    told = []
    for line in statements.choose(candidates, limit):
        day = days[line.id]
        text = dates.annotate(line.text, day) if day else line.text
        question = f" (asked: {line.asked})" if line.asked else ""
        told.append(line._replace(text=neutralize(f"{line.speaker}: {text}{question}")))
    return _join_statements(told)


def _join_statements(chosen: Sequence[Statement]) -> list[reply.SummaryLine]:
    """Return the statements as lines: those of one message are joined in order, up to `_LONGEST_LINE` characters."""
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
    said: Sequence[ConversationMessage],
    raw: Mapping[str, str],
    known: KnownTexts,
    answers: Mapping[str, Mapping[int, str]],
    *,
    working: bool,
    chatting: bool,
) -> list[NewMemory]:
    """Return the lasting memories: of the user, whole quotations with their context; of the assistant, sentences.

    Each numbered answer is quoted alone. `answers` holds its question, by the id of the message and the number of the
    sentence.
    """
    found: dict[str, NewMemory] = {}
    taken_back, announced = _list_taken_back(said), work.find_announced(said)
    for one in said:
        around = one.text if working and one.id not in announced else ""
        asked = answers.get(one.id, {})
        for number, sentence, _ in () if one.id in taken_back else one.sentences:
            cue = lasting.find_cue(sentence, by_user=one.by_user, working=working, message=around, chatting=chatting)
            quoted = quote_around(raw[one.id], (number,), is_own=_make_is_same(asked, number)) if cue else ""
            words_of = neutralize(quoted if one.by_user else sentence) if cue else ""
            text = words_of if words_of.startswith(f"{one.speaker}:") else f"{one.speaker}: {words_of}"
            if cue and words_of and not known.says(text):
                held = found.get(text) or NewMemory(cue.type, 0.0, text, (int(one.id[1:]),))
                kind = cue.type if cue.importance > held.importance else held.type
                cites = (*held.cites, f"{one.id}.{number}")
                found[text] = NewMemory(kind, max(cue.importance, held.importance), text, held.sources, cites)
    return list(found.values())


def _make_is_same(asked: Mapping[int, str], number: int) -> Callable[[int], bool]:
    """Return a function that tells whether another sentence answers the same numbered question."""
    return lambda other: asked.get(other) == asked.get(number)


def _without_jokes(chosen: Iterable[WorkStatement], said: Sequence[ConversationMessage]) -> list[WorkStatement]:
    """Return the lines without those of messages that the user retracts."""
    taken_back = _list_taken_back(said)
    return [one for one in chosen if one.id not in taken_back]


def _list_taken_back(said: Sequence[ConversationMessage]) -> set[str]:
    """Return the ids of the messages that the user retracts."""
    own = [one for one in said if one.by_user]
    return {own[at].id for at in lasting_model.find_taken_back([one.text for one in own])}


def _select_important(found: list[NewMemory], limit: int) -> list[NewMemory]:
    """Return the most important memories within `limit` words, in the order of the conversation.

    Wishes and decisions of the user are always kept.
    """
    kept = []
    for place, memory in enumerate(sorted(found, key=lambda memory: (-memory.importance, memory.sources))):
        limit -= prose.count_words(memory.text) + 1
        is_wanted = memory.type in {MemoryType.PREFERENCE, MemoryType.DECISION} and memory.text.startswith(_USER)
        has_room = place < _MOST_MEMORIES and (limit >= 0 or memory.type is MemoryType.PREFERENCE)
        if has_room or is_wanted or memory.importance >= lasting.ASKED_FOR:
            kept.append(memory)
    return sorted(kept, key=lambda memory: memory.sources)


def _still_failing(facts: Sequence[QuotedPiece], said: Sequence[ConversationMessage]) -> list[QuotedPiece]:
    """Return the facts without failures that passed later or that the assistant later called fixed."""
    fixes = [
        (int(one.id[1:]), frozenset(words.list_content_words(sentence.text)) - _OF_FAILURES)
        for one in said
        for sentence in (one.sentences if one.is_answer else ())
        if CUES["fixed"].search(sentence.text.lower())
    ]

    def is_mended(fact: QuotedPiece) -> bool:
        own = {key for key in words.list_content_words(fact.text) if key.isalpha()}
        return fact.text.endswith(MENDED) or any(seq > int(fact.id[1:]) and own & about for seq, about in fixes)

    return [fact for fact in facts if not fact.text.startswith(FAILED) or not is_mended(fact)]


def _list_facts(material: Sequence[QuotedPiece]) -> list[QuotedPiece]:
    """Return each fact of a turn's report as a separate piece. Notes that follow the facts are left out."""
    told = (quoted for quoted in material if _is_fact(quoted))
    return [replace(one, text=line) for one in told for line in one.text.partition("\n\n")[0].splitlines()]


def _reports(facts: Sequence[QuotedPiece], limit: int) -> list[reply.SummaryLine]:
    """Return the state of the work, the changed files and the last failures, within `limit` words."""
    files: dict[str, int] = {}
    states: dict[str, reply.SummaryLine] = {}  # by key: the last fact with this key is the current one
    failures: list[reply.SummaryLine] = []
    for fact in facts:
        seq = int(fact.id[1:])
        if fact.text.startswith(CHANGED):
            files |= {path: files.get(path, seq) for path in re.findall(r"`([^`]+)`", fact.text)}
        elif fact.text.startswith(FAILED):
            failures.append(reply.SummaryLine((seq,), fact.text.removeprefix(FAILED), section=Section.FAILED))
        else:
            text = fact.text.removeprefix(STATE)
            key = text.partition(":")[0]
            if _USUAL.fullmatch(text):
                states.pop(key, None)
            else:
                states[key] = reply.SummaryLine((seq,), text, section=Section.STATE)
    told = [states[key] for key in sorted(states, key=_STATES.find)]
    if files:
        shown = list(files)[:_MOST_FILES]
        sources = tuple(dict.fromkeys(files[path] for path in shown))
        told.append(reply.SummaryLine(sources, ", ".join(f"`{path}`" for path in shown), section=Section.FILES))
    for failure in _drop_passed(failures, states.get("Tests"))[-_MOST_FAILURES:][::-1]:
        if _words((*told, failure)) <= limit:
            told.append(failure)
    return told


def _drop_passed(failures: list[reply.SummaryLine], tested: reply.SummaryLine | None) -> list[reply.SummaryLine]:
    """Return the failures without test runs that failed before a run in which all tests passed."""
    if tested is None or not _ALL_PASSED.match(tested.text):
        return failures
    return [one for one in failures if one.sources > tested.sources or not _TEST_RUN.match(one.text)]


def _words(told: Sequence[reply.SummaryLine]) -> int:
    return sum(prose.count_words(one.text) + 1 for one in told)


_ANSWERS = {FACTS: _facts, DREAM: dreaming.write_dream}
