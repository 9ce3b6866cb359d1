"""Dividing a question, and putting the replies to its parts together."""

from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs import parts, reply
from memoryd.jobs.job import Ask, MemoryType, NewMemory, QuotedPiece, RejectedReply, Reply

TEXTS = st.builds(lambda text, times: text * times, st.text("ab \n", max_size=30), st.integers(1, 60))
PIECES = st.lists(TEXTS, min_size=1, max_size=12)


def count(texts):
    return [-(-len(text) // 4) for text in texts]


def ask_of(texts, **more):
    material = tuple(QuotedPiece(f"t{i}", "user", "user", None, text) for i, text in enumerate(texts, 1))
    return Ask("sleep", "do it", material, (("words", "400"), ("known", "- a")), **more)


@given(PIECES, st.integers(1, 3000))
def test_nothing_is_left_out_or_changes_its_order(texts, room):
    ask = ask_of(texts)
    divided = parts.divide(ask, room, count)
    joined: dict[str, str] = {}
    ids = [piece.id for part in divided for piece in part.material]
    for part in divided:
        assert part.material
        assert (part.instructions, part.context[1]) == (ask.instructions, ask.context[1])
        for piece in part.material:
            joined[piece.id] = joined.get(piece.id, "") + piece.text
    assert joined == {piece.id: piece.text for piece in ask.material}
    assert ids == sorted(ids, key=lambda one: int(one[1:]))


@given(PIECES, st.integers(400, 3000))
def test_each_part_fits(texts, room):
    for part in parts.divide(ask_of(texts), room, count):
        assert parts.measure(part, count) <= room


@given(PIECES)
def test_what_fits_is_one_part(texts):
    ask = ask_of(texts)
    assert parts.divide(ask, parts.measure(ask, count), count) == (ask,)


def test_the_words_are_shared_out():
    divided = parts.divide(ask_of(["x" * 1000] * 4), 700, count)
    words = [int(dict(part.context)["words"]) for part in divided]
    assert len(divided) > 1
    assert sum(words) <= 400
    assert min(words) >= 20


WORDS = st.from_regex(r"\A[a-z][a-z ]{0,20}[a-z]\Z")
SEQS = st.integers(1, 99)
TOLD = st.lists(st.builds(lambda seq, text: reply.SummaryLine((seq,), text, (f"t{seq}.1",)), SEQS, WORDS), max_size=4)
KEPT = st.lists(
    st.builds(
        lambda kind, importance, text, seq: NewMemory(kind, importance, text, (seq,), (f"t{seq}",)),
        st.sampled_from(MemoryType), st.sampled_from([0.25, 0.9]), WORDS, SEQS,
    ),
    max_size=3,
)  # fmt: skip


@given(st.lists(st.tuples(TOLD, KEPT), min_size=1, max_size=4))
def test_merged_replies_say_all_that_their_parts_say(given_parts):
    replies = [Reply(reply.render(told, kept), "stop", "openai", "m", 10, 2) for told, kept in given_parts]
    merged = reply.merge(replies)
    assert isinstance(merged, Reply)
    parsed = reply.parse(merged)
    assert list(parsed.summary) == [one for told, _ in given_parts for one in told]
    assert list(parsed.memories) == [one for _, kept in given_parts for one in kept]
    assert (merged.tokens_in, merged.tokens_out) == (10 * len(replies), 2 * len(replies))


def test_one_part_that_cannot_be_used_makes_the_whole_unusable():
    fine = Reply("[NOTHING]", "stop", "openai")
    assert isinstance(reply.merge([fine, fine]), Reply)
    assert isinstance(reply.merge([fine, Reply("no", "stop", "openai")]), RejectedReply)
    assert isinstance(reply.merge([Reply("[NOTHING]", "length", "openai"), fine]), RejectedReply)
