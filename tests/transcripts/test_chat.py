"""A chat API's list of messages: what is one, what of it belongs together, what is new, and what fits a budget."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs.chat import MESSAGE_TOKENS, PICTURE_TOKENS, compress
from memoryd.jobs.compress import STRATEGIES
from memoryd.transcripts import chat
from memoryd.transcripts.format import Identity
from memoryd.transcripts.lines import Pass, Record
from memoryd.transcripts.messages import Messages

TEXT = st.sampled_from(["yes", "never deploy on a Friday, remember 42", "a b c d e f g h i j", "水 `x`", ""])
SYSTEM = {"role": "system", "content": "be brief"}


def count(texts):
    return [len(text.split()) for text in texts]


def call(*ids, name="read"):
    calls = [{"id": one, "type": "function", "function": {"name": name, "arguments": '{"a": 1}'}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(one, text="found it"):
    return {"role": "tool", "tool_call_id": one, "content": text}


def said(role, text):
    return {"role": role, "content": text}


@st.composite
def conversations(draw):
    """What a well-behaved program holds: each call is answered by what follows it, but perhaps the last; ids repeat."""
    messages = []
    for _ in range(draw(st.integers(0, 9))):
        shape = draw(st.sampled_from(["user", "assistant", "system", "parts", "calls", "blocks"]))
        if shape in {"user", "assistant", "system"}:
            messages.append(said(shape, draw(TEXT)))
        elif shape == "parts":
            picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400}}
            messages.append(said("user", [{"type": "text", "text": draw(TEXT)}, picture]))
        elif shape == "calls":
            ids = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
            messages += [call(*ids), *(result(one, draw(TEXT)) for one in draw(st.permutations(ids)))]
        else:
            use = {"type": "tool_use", "id": "t", "name": "read", "input": {"a": 1}}
            back = {"type": "tool_result", "tool_use_id": "t", "content": draw(TEXT)}
            messages += [said("assistant", [{"type": "text", "text": "look"}, use]), said("user", [back])]
    if draw(st.booleans()):
        messages.append(call("a", "b"))
    return messages


def calls_of(message):
    parts = message["content"] if isinstance(message["content"], list) else []
    return [one["id"] for one in message.get("tool_calls", ())] + [p["id"] for p in parts if p["type"] == "tool_use"]


def answers_of(message):
    parts = message["content"] if isinstance(message["content"], list) else []
    found = [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]
    return found + ([message["tool_call_id"]] if message["role"] == "tool" else [])


def faults(messages):
    """What a chat API refuses: a result of no call right before it, a call that is not answered before others speak."""
    found, waiting = [], []
    for place, message in enumerate(messages):
        answers = answers_of(message)
        found += [f"{place} answers nothing" for one in answers if one not in waiting]
        waiting = [one for one in waiting if one not in answers]
        if waiting and not answers:
            found.append(f"{place} comes before the results of {waiting}")
        waiting = [*waiting, *calls_of(message)]
    return found


def cost(messages):
    texts = count([chat.text_of(one) for one in messages])
    return sum(
        size + MESSAGE_TOKENS + PICTURE_TOKENS * chat.count_pictures(one)
        for one, size in zip(messages, texts, strict=True)
    )


@given(
    conversations(),
    st.integers(1, 3000),
    st.sampled_from(STRATEGIES),
    st.integers(0, 6),
    st.none() | st.just("- a line\n- and one more"),
)
def test_what_fits_is_in_order_whole_and_within_the_budget(messages, budget, strategy, keep, summary):
    before = copy.deepcopy(messages)
    systems = [one for one in messages if one["role"] == "system"]
    if cost(systems) > budget:
        with pytest.raises(ValueError, match="system messages alone"):
            compress(messages, budget, strategy, keep, summary, count)
        return
    whole = chat.drop_orphans(messages)
    places = [place for place, one in enumerate(whole.messages) if one["role"] != "system"]
    last = whole.group[places[-1]] if places else None
    newest = [one for place, one in enumerate(whole.messages) if whole.group[place] == last]
    if (lacking := cost(newest) - (budget - cost(systems))) > 0 and newest:
        with pytest.raises(ValueError, match=f"newest message .* {lacking} too few"):
            compress(messages, budget, strategy, keep, summary, count)
        return
    kept = compress(messages, budget, strategy, keep, summary, count)
    assert all(one in kept for one in newest)
    assert messages == before
    assert cost(kept) <= budget
    assert faults(kept) == []
    own = kept[1:] if summary and kept and "- a" in str(kept[0]["content"]) else kept
    ahead = iter(messages)
    assert all(any(one == other for other in ahead) for one in own)
    assert [one for one in own if one["role"] == "system"] == systems
    if not summary and strategy in {"sliding-window", "hybrid"} and cost(messages) <= budget:
        assert kept == messages


@given(conversations(), st.data())
def test_what_is_torn_out_of_a_list_leaves_one_that_a_chat_api_takes(messages, data):
    kept = [one for one in messages if data.draw(st.booleans())]
    whole = chat.drop_orphans(kept)
    assert faults(whole.messages) == []
    assert [one for one in kept if not calls_of(one) and not answers_of(one)] == [
        one for one in whole.messages if not calls_of(one) and not answers_of(one)
    ]


def test_ids_that_begin_anew_with_each_call_belong_to_the_call_before():
    messages = [call("0"), result("0", "one"), said("user", "on"), call("0"), result("0", "two")]
    assert chat.drop_orphans(messages).group == [0, 0, 2, 3, 3]
    again = [call("0"), said("user", "never mind"), call("0"), result("0", "two")]
    assert chat.drop_orphans(again).messages == again[1:]
    assert chat.drop_orphans([call("0"), said("user", "on"), result("0")]).messages == [said("user", "on")]
    nameless = [
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "read", "arguments": {}}}]},
        {"role": "tool", "content": "x"},
    ]
    assert chat.drop_orphans(nameless).group == [0, 0]


def test_a_result_of_nothing_goes_and_the_words_beside_it_stay():
    torn = said("user", [{"type": "tool_result", "tool_use_id": "t", "content": "x"}, {"type": "text", "text": "hi"}])
    assert chat.drop_orphans([result("a"), torn]).messages == [said("user", [{"type": "text", "text": "hi"}])]
    assert chat.drop_orphans([call("a"), said("user", "never mind")]).messages == [said("user", "never mind")]
    assert chat.drop_orphans([said("user", "look"), call("a", "b"), result("a")]).group == [0, 1, 1]


@pytest.mark.parametrize(
    "messages",
    [
        "hi",
        {"role": "user", "content": "x"},
        None,
        ["hi"],
        [{"content": "x"}],
        [{"role": "wizard", "content": "x"}],
        [{"role": "user", "content": 7}],
        [{"role": "user", "content": [7]}],
        [{"role": "assistant", "content": "", "tool_calls": "read"}],
        [{"role": "user", "content": "SECRET", "more": object()}],
        [object()],
    ],
)
def test_what_is_no_message_is_refused_by_its_place_and_never_quoted(messages):
    with pytest.raises(ValueError, match="messages") as raised:
        chat.check(messages)
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize("budget", [0, -1, 2.5, True, "9", None])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(ValueError, match="budget"):
        compress([], budget, "hybrid", 1, None, count)


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="strategy 'newest'"):
        compress([], 9, "newest", 1, None, count)


def test_the_strategies_differ_as_they_say():
    early = said("user", "never commit before the tests pass, remember 42 `x`")
    messages = [SYSTEM, early, *(said("assistant", f"word {number} and some more words") for number in range(8))]
    budget = cost([SYSTEM, early]) + 4 * cost(messages[-1:])
    kept = {one: compress(messages, budget, one, 2, None, count) for one in STRATEGIES}
    assert kept["progressive-summary"] == [SYSTEM, *messages[-2:]]
    assert early in kept["importance-based"]
    assert early in kept["hybrid"]
    assert kept["sliding-window"] == [SYSTEM, *messages[-5:]]
    summary = "- early on\n- tests first"
    tight = cost([said("system", summary), SYSTEM, *messages[-2:]])
    assert compress(messages, tight, "sliding-window", 2, summary, count) == [
        said("system", summary), SYSTEM, *messages[-2:],
    ]  # fmt: skip
    assert messages[-2] not in compress(messages, tight - 1, "sliding-window", 2, summary, count)
    told = compress(messages, budget, "progressive-summary", 2, "- early on\n- tests first", count)
    assert told == [said("system", "- early on\n- tests first"), SYSTEM, *messages[-2:]]


def test_a_summary_is_asked_for_what_progressive_summary_leaves_out_and_for_nothing_else():
    asked = []

    def summarize(messages):
        asked.append(messages)
        return "- summed up"

    messages = [SYSTEM, *(said("assistant", f"word {number} and some more words") for number in range(8))]
    told = compress(messages, 1000, "progressive-summary", 2, None, count, summarize)
    assert (asked, told) == ([messages[1:-2]], [said("system", "- summed up"), SYSTEM, *messages[-2:]])
    compress(messages[:3], 1000, "progressive-summary", 2, None, count, summarize)
    compress(messages, 1000, "progressive-summary", 2, "", count, summarize)
    compress(messages, 1000, "hybrid", 2, None, count, summarize)
    assert len(asked) == 1


# --- what is known again ---


@given(conversations(), conversations(), st.data())
def test_a_list_once_more_or_grown_or_compressed_is_known_again(messages, more, data):
    digests = [chat.compute_digest(chat.select_recorded(one)) for one in messages]
    grown = digests + [chat.compute_digest(chat.select_recorded(one)) for one in more]
    if not digests:
        assert chat.known_until(digests, grown) is None
        return
    assert chat.known_until(digests, digests) == len(digests)
    assert chat.known_until(grown, digests) == len(digests)
    until = chat.known_until(digests, grown)
    assert until is not None
    assert grown[until:] == grown[len(digests) :]
    left = [one for one in digests[:-1] if data.draw(st.booleans())] + digests[-1:]
    until = chat.known_until(digests, [*left, "new", "newer"])
    assert until == len(left)


def test_another_conversation_is_one_though_it_shares_words():
    assert chat.known_until(["hi", "hello", "bye"], ["hi", "other"]) is None
    assert chat.known_until(["a", "b"], ["b", "b"]) == 1
    assert chat.known_until(["a", "b"], []) is None


@given(conversations())
def test_what_is_recorded_is_read_as_the_message_itself(messages):
    def turns(message):
        record = Record(message, 0, 1, json.dumps(message).encode())
        found = Messages().turns(record, Identity("s"), Pass("s")).turns
        return [(turn.role, turn.origin, turn.kind, turn.tool_call_id, turn.tool_name) for turn in found], [
            json.loads(turn.text.removeprefix("read ")) if turn.kind == "tool_call" else turn.text for turn in found
        ]

    for message in messages:
        kept = chat.select_recorded(message)
        assert turns(kept) == turns(message)
        assert "AAAA" not in json.dumps(kept)
