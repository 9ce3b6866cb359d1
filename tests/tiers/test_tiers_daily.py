"""The daily file: any bytes survive it, appends only add, and no body forges a block."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.tiers.daily import (
    attribute_block,
    block,
    has_content,
    is_passing,
    list_framing,
    needs_newline,
    new_file,
    parse,
    render,
    says_nothing,
    session_of,
    split_pieces,
)
from memoryd.tiers.session_summary import HEADINGS, Section, SummaryPoint, parse_points, render_points

LINES = st.sampled_from(
    [
        *(
            "",
            "# T",
            "## H (10:00)",
            "  ## H",
            "### h",
            "### Decided",
            " ### Asked",
            "#",
            "#tag",
            "```",
            "~~~~",
            "``` a",
            "---",
            "===",
            "+++",
            "- - -",
        ),
        *(
            "- - -",
            "- a",
            "<!-- x",
            "<script>",
            "# Daily Memory: 2026-01-02",
            "text",
            "\r",
            "a\r## H (10:00)",
            "\u2028# H",
        ),
        *("\x0b# x", "\ud83d", "\0", "   ```", "    ## code", "1. a", "é", "\\## x", "\ufeff# x"),
    ],
)
MARKDOWN = st.lists(LINES | st.text(max_size=8), max_size=12).map("\n".join)


@pytest.mark.parametrize(
    ("given_", "line"),
    [
        (("Codex", "09:12", "09:40", "s-1"), "From Codex, 09:12-09:40, session:s-1"),
        (("Claude Code", "09:12", "09:12", "s-1"), "From Claude Code, 09:12, session:s-1"),
        (("Codex", "23:50", "00:10", "two words"), "From Codex, 23:50-00:10"),
    ],
)
def test_a_block_says_whose_session_it_is_about(given_: tuple[str, str, str, str], line: str) -> None:
    assert attribute_block(*given_) == line
    assert session_of(f"{line}\n\n- a") == line.partition("session:")[2]
    assert session_of(f"- a\n{line}") == ""
    assert says_nothing(line)
    (one,) = parse(block("Session Notes", "09:40", f"{line}\n- Orders lie in PostgreSQL.")).blocks
    assert (one.reason, one.clock) == ("Session Notes", "09:40")
    assert one.body == f"{line}\n- Orders lie in PostgreSQL."
    assert not says_nothing(one.body)
    assert says_nothing("")
    assert not says_nothing("From Codex, 09:12, we took the train")


@given(st.binary(max_size=80) | MARKDOWN.map(lambda text: text.encode(errors="replace")))
def test_any_bytes_come_back(data: bytes) -> None:
    assert render(parse(data)) == data


@given(body=MARKDOWN.filter(str.strip), more=MARKDOWN.filter(str.strip))
def test_a_body_is_one_block_whatever_it_says(body: str, more: str) -> None:
    data = new_file(date(2026, 1, 2)) + block("Trimmed Context", "09:05", body) + block("Note", "10:00", more)
    file = parse(data)
    assert file.title == "2026-01-02"
    assert [(part.reason, part.clock) for part in file.blocks] == [("Trimmed Context", "09:05"), ("Note", "10:00")]
    assert sum(line.startswith(("# ", "## ")) for line in data.decode().splitlines()) == 3
    assert not any(line.strip() in {"---", "+++", "==="} for line in data.decode().splitlines())
    deeper = {line for line in data.decode().splitlines() if line.startswith("###")}
    assert deeper <= HEADINGS.keys()


@given(data=st.binary(max_size=60), body=MARKDOWN.filter(str.strip))
def test_an_append_leaves_earlier_blocks_as_they_were(data: bytes, body: str) -> None:
    closed = data + b"\n" if needs_newline(data) else data
    before, after = parse(closed), parse(closed + block("Note", "10:00", body))
    assert after.blocks[: len(before.blocks) - 1] == before.blocks[:-1]
    assert render(after).startswith(data)


def test_a_plain_body_is_written_as_it_is() -> None:
    body = "- one\n- two #tag\n\n```sh\nls\n```"
    assert block("Note", "23:59", f"\n{body}\n\n") == f"\n## Note (23:59)\n\n{body}\n".encode()


def test_what_would_break_out_is_escaped() -> None:
    data = block("Note", "23:59", "## a\n---\n<!-- b\n```\n# c").decode()
    assert data == "\n## Note (23:59)\n\n\\## a\n\\---\n&lt;!-- b\n```\n\\# c\n```\n"


SECTIONS = "### Asked\n- A parser.\n\n### Open and next step\n- The docs."


def test_the_headings_of_a_summary_are_written_as_they_are() -> None:
    data = block("Session Notes", "09:40", f"From Codex, 09:12-09:40, session:s-1\n\n{SECTIONS}")
    assert data.decode().endswith(f"session:s-1\n\n{SECTIONS}\n")
    (one,) = parse(data).blocks
    assert parse_points(one.body.partition("\n\n")[2]).texts(Section.OPEN) == ["The docs."]
    assert [text for _, text in split_pieces(data)] == ["A parser.", "The docs."]


def test_a_state_an_open_point_and_changed_files_are_of_their_day_alone() -> None:
    body = render_points([SummaryPoint(section, f"of {section.name}") for section in Section])
    raw = block("Session Notes", "09:40", f"- first\n{body}")
    found = {text: is_passing(raw, at) for at, text in split_pieces(raw)}
    passing = {f"of {one.name}" for one in (Section.STATE, Section.OPEN, Section.FILES)}
    assert found == {"first": False} | {f"of {one.name}": f"of {one.name}" in passing for one in Section}


@pytest.mark.parametrize("heading", [*HEADINGS])
@pytest.mark.parametrize("form", [" {}", "{} ", "#{}", "{}s", "## {}", "{}\r", "\t{}", "> {}", "- {}", "\u200b{}"])
def test_only_the_very_heading_of_a_section_is_one(heading: str, form: str) -> None:
    line = form.format(heading)
    data = block("Note", "10:00", f"- a\n{line}\n- b").decode()
    headings = [one for one in data.splitlines() if re.match(r" {0,3}#{1,6}(?:\s|$)", one)]
    assert headings == ["## Note (10:00)", *([heading] if line.rstrip("\r") == heading else [])]


def test_what_memoryd_wrote_around_a_text_is_known_from_the_text() -> None:
    attributed = attribute_block("Codex", "09:12", "09:40", "s1")
    file = parse(
        f"# Daily Memory: 2026-03-04\n\n## Note (09:00)\n\nOutdated:\n- a\n\n## Mine\n\n{attributed}\n- b\n\n"
        f"## Trimmed Context (09:40)\n\n{attributed}\n- c\n".encode()
    )
    assert [*list_framing(file)] == ["Note (09:00)", "Trimmed Context (09:40)", attributed]


def test_headings_in_fences_begin_no_block() -> None:
    data = b"# Daily Memory: 2026-01-02\r\n\r\n## A (10:00)\r\n```\r\n## B (11:00)\r\n```\r\n\r\n## own words\r\ntext"
    file = parse(data)
    assert [(part.reason, part.clock) for part in file.blocks] == [("A", "10:00"), ("own words", None)]
    assert file.blocks[1].body == "text"
    assert needs_newline(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", False),
        (b"# Daily Memory: 2026-01-02\n", False),
        (b"\xef\xbb\xbf# Daily Memory: 2026-01-02\r\n\r\n", False),
        (b"# Daily Memory: 2026-01-02\nwords", True),
        (b"words\n", True),
        (b"# Daily Memory: 2026-01-02\n\n## Note (10:00)\n", True),
    ],
)
def test_a_title_alone_is_no_content(data: bytes, expected: bool) -> None:  # noqa: FBT001 - the table reads best so
    assert has_content(parse(data)) is expected


@pytest.mark.parametrize(
    ("reason", "clock", "body"),
    [
        ("Note", "24:00", "x"),
        ("Note", "9:00", "x"),
        ("Note", "10:00", " \n"),
        ("No\nte", "10:00", "x"),
        ("", "10:00", "x"),
    ],
)
def test_what_is_no_block_is_refused(reason: str, clock: str, body: str) -> None:
    with pytest.raises(ValueError, match=r"a (reason|block)|clock"):
        block(reason, clock, body)


def test_pieces_are_bullets_paragraphs_and_code_each_with_its_place() -> None:
    code = "```\n- no bullet\n# no heading\n```"
    head = "## Note (10:00)\n\nFrom Codex, 09:12-09:40, session:x\n\n"
    raw = f"{head}- One\n  goes on\n* Two\n\nThree\n+ Four\n{code}\n".encode()
    found = list(split_pieces(raw))
    assert [text for _, text in found] == ["One\n  goes on", "Two", "Three", f"Four\n{code}"]
    assert [raw[at:].lstrip(b"-*+ ").startswith(text[:3].encode()) for at, text in found] == [True] * 4


@given(
    st.lists(st.sampled_from(["", "- w{}", "w{}", "  w{}", "* w{}", "```", "## w{}", "From Codex, 09:12"]), max_size=12)
)
def test_pieces_leave_out_headings_and_nothing_else_and_tell_where_each_begins(shapes: list[str]) -> None:
    lines = [shape.format(number) for number, shape in enumerate(shapes)]
    raw = "\n".join(lines).encode()
    found = list(split_pieces(raw))
    said = re.findall(r"w\d+", " ".join(text for _, text in found))
    fences = [sum(one == "```" for one in lines[:number]) % 2 for number in range(len(lines))]
    spoken = [line for line, is_code in zip(lines, fences, strict=True) if is_code or not line.startswith("#")]
    assert said == re.findall(r"w\d+", " ".join(spoken))
    for at, text in found:
        assert raw[at:].lstrip(b"-* ").startswith(text.split()[0].encode())
