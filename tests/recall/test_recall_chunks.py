"""Chunks of Markdown: every line in exactly one, cut where the structure lets it."""

from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.recall.chunks import LONGEST, SIZE, split_chunks
from memoryd.tiers.lines import lines_of

LINES = st.sampled_from(
    ["", " ", "# Title", "## Part", "### Deeper", "#no heading", "- bullet", "  - deeper", "  goes on", "1. first",
     "text", "```", "````", "~~~", "---", "...", "tags: [a]", "<!-- x", "\t- tab", "* star", "a" * 300, "é", "\r"]
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\r\n"])
FILES = st.builds(lambda lines, end: end.join(lines), st.lists(LINES, max_size=40), ENDS)


@given(data=FILES.map(str.encode) | st.binary(max_size=400), apart=st.booleans())
@example(data=b"---\ntags: [a]\n---\n# A\n", apart=False)
@example(data=b"\xef\xbb\xbf# A\n", apart=True)
def test_every_line_is_in_exactly_one_chunk_at_the_place_it_says(data, apart):
    lines = lines_of(data)
    found = split_chunks(data, apart=apart)
    numbers = [number for one in found for number in range(one.first_line, one.last_line + 1)]
    assert numbers == list(range(1, len(lines) + 1))
    for one in found:
        assert one.text == b"".join(lines[one.first_line - 1 : one.last_line]).decode(errors="replace")


@given(FILES.map(str.encode), FILES.map(str.encode))
def test_what_is_appended_below_a_heading_leaves_the_chunks_above_as_they_were(data, more):
    if data and not data.endswith(b"\n"):
        data += b"\n"
    before = [one.text for one in split_chunks(data)]
    after = [one.text for one in split_chunks(data + b"## Note (12:00)\n\nwhat was added\n")]
    if not any(line.strip().startswith((b"```", b"~~~", b"---", b"# ", b"## ", b"### ")) for line in lines_of(data)):
        assert after[: len(before)] == before


def texts(text, **more):
    return [one.text for one in split_chunks(text.encode(), **more)]


def test_a_chunk_stands_under_its_headings():
    found = split_chunks(b"# Day\n\nlead\n\n## Morning\n\none\n\n### Tea\n\ntwo\n\n## Evening\n\nthree\n")
    assert [(one.heading, one.first_line, one.last_line) for one in found] == [
        (("Day",), 1, 4), (("Day", "Morning"), 5, 8), (("Day", "Morning", "Tea"), 9, 12), (("Day", "Evening"), 13, 15),
    ]  # fmt: skip


def test_headings_with_nothing_between_them_stand_together():
    assert texts("# A\n## B\n\ntext\n") == ["# A\n## B\n\ntext\n"]


def test_what_looks_like_a_heading_in_a_fence_or_in_front_matter_is_none():
    fenced = "intro\n\n```\n# not a heading\n\n- nor a bullet\n```\n"
    assert texts(fenced) == [fenced]
    assert [one.heading for one in split_chunks(b"---\n# comment\ntags: [a]\n---\nbody\n")] == [()]


def test_short_blocks_stand_together_and_long_ones_apart():
    paragraph = "word " * 100 + "\n\n"
    found = texts(paragraph * 4)
    assert len(found) == 4
    assert all(len(one) <= SIZE for one in found)
    assert len(texts("short\n\n" * 20)) == 1


def test_a_fence_is_kept_whole_until_it_is_too_long():
    fence = "```\n" + "a line of code\n\n" * 100 + "```\n"
    assert texts(fence) == [fence]
    long = "```\n" + "a line of code\n" * 1000 + "```\n"
    parts = texts(long)
    assert "".join(parts) == long
    assert all(len(one) <= LONGEST for one in parts)


def test_a_bullet_is_a_chunk_of_its_own_with_what_hangs_below_it():
    text = "# Memory\n\n- one\n  goes on\n\n  and on\n- two\n\n## Part\n- three\n"
    found = split_chunks(text.encode(), apart=True)
    assert [one.text for one in found] == [
        "# Memory\n\n- one\n  goes on\n\n  and on\n",
        "- two\n\n",
        "## Part\n- three\n",
    ]


def test_bullets_of_one_list_stand_together_where_they_are_no_memories():
    assert len(texts("".join(f"- item {number}\n" for number in range(10)))) == 1
