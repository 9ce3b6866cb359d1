"""Read the person's answers in dialogs of Claude Code. They are the person's own words in a record of a tool result.

Only the program's own record counts, `toolUseResult`, never a phrase in the text that a tool returned:
- The answers to AskUserQuestion are keyed by question. A text that is none of the options was typed.
- The reason for a rejection is in the result's text, after words of the program. `toolUseResult` repeats it after
  `Error: `, and newer versions say in `toolDenialKind` who declined. The error of an MCP server is repeated in the same
  way. So without `toolDenialKind`, the call must be to a tool of the program itself.

A record does not say which tool was called. So `tool_name` of an answer says which tool the call must be to, and the
code that stores the answer looks the call up (`is_confirmed`).
"""

import re
from collections.abc import Iterator
from typing import Any

from memoryd.text import prose
from memoryd.text.sentences import list_texts
from memoryd.transcripts.blocks import output_text
from memoryd.transcripts.fields import mappings, read_mapping, read_word
from memoryd.transcripts.lines import clean
from memoryd.transcripts.record_text import RecordText
from memoryd.transcripts.turn import Origin, Role, TurnKind

ASKS = "AskUserQuestion"
ANY_TOOL, BUILT_IN = "any", "built-in"
_SERVERS_TOOL = "mcp__"
_OTHER = "Other"
_REJECTED = "User rejected tool use"
_REASON = re.compile(
    r"The user doesn't want to proceed with this tool use\. The tool use was rejected \(eg\. if it was a file edit, the"
    r" new_string was NOT written to the file\)\. (?:To tell you how to proceed, the user said:"
    r"|The user provided the following reason for the rejection:)\s(?P<reason>.*)",
    re.DOTALL,
)
# The program's own words in the person's place, and its addition after the person's words.
_CLARIFIES = "The user wants to clarify these questions."
_NOTE = "\n\nNote: The user's next message may contain a correction or preference."
# In older versions, the output of a shell was repeated as the plain error, and it could be any text.
_FIRST_EXIT_CODE = (2, 0, 30)


def read_dialog(value: dict[str, Any]) -> list[RecordText]:
    """Return the person's answers in a `user` record that holds the result of one call; empty if there are none."""
    content = mappings(read_mapping(value.get("message")).get("content"))
    results = [block for block in content if block.get("type") == "tool_result"]
    call = read_word(results[0].get("tool_use_id")) if len(results) == 1 else None
    if call is None:
        return []
    given = value.get("toolUseResult")
    if results[0].get("is_error") is not True:
        return list(read_answers(given, call)) if type(given) is dict else []
    tool = _find_rejected(value, output_text(results[0]), given)
    found = _REASON.fullmatch(output_text(results[0])) if tool else None
    reason = found["reason"].rpartition(_NOTE)[0] or found["reason"] if found else ""
    if reason.startswith(_CLARIFIES) or not reason.strip():
        return []
    return [RecordText(Role.USER, Origin.USER, TurnKind.MESSAGE, reason.strip(), call, tool)]


def is_confirmed(call: str | None, answered: str | None) -> bool:
    """Return True if an answer can belong to a call.

    Args:
        call: The name of the called tool; None if no such call is known.
        answered: The tool that the answer must belong to: a name, `ANY_TOOL` or `BUILT_IN`.
    """
    is_built_in = call is not None and not call.startswith(_SERVERS_TOOL)
    return call is not None and (answered in (ANY_TOOL, call) or (answered == BUILT_IN and is_built_in))


def _find_rejected(value: dict[str, Any], text: str, given: object) -> str | None:
    """Return which tools the call may be to, if the program records that the person declined it; otherwise None."""
    denial = value.get("toolDenialKind")
    if denial is not None:
        return ANY_TOOL if denial == "user-rejected" else None
    if given == _REJECTED:
        return ANY_TOOL
    agrees = given in (text, f"Error: {text}") and _version(value.get("version")) >= _FIRST_EXIT_CODE
    return BUILT_IN if agrees else None


def _version(value: object) -> tuple[int, ...]:
    """Return a version as numbers. A record without a version counts as new."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})", value) if type(value) is str else None
    return tuple(map(int, found.groups())) if found else _FIRST_EXIT_CODE


def read_answers(given: dict[str, Any], call: str, tool: str = ASKS) -> Iterator[RecordText]:
    """Yield the chosen and the typed answers, question by question.

    Args:
        given: `questions` with their `options`, and `answers` and `annotations`, which are keyed by question.
        call: The id of the call that asked.
        tool: The name that the call must have (`is_confirmed`).
    """
    asked, answered, notes = given.get("questions"), given.get("answers"), given.get("annotations")
    if type(answered) is not dict:
        return
    options: dict[str, tuple[list[str], bool]] = {}
    for one in mappings(asked):
        if type(one.get("question")) is str:
            options[one["question"]] = _labels(one.get("options")), one.get("multiSelect") is True
    for question, answer in answered.items():
        labels, many = options.get(question, ([], False))
        texts = answer if type(answer) is list else [answer]
        chosen: list[str] = []
        typed: list[str] = []
        for text in texts:
            if type(text) is not str:
                continue
            found, rest = _split_answer(text, labels, many=many) if labels else ([text], "")
            chosen += found
            typed.append(rest)
        if chosen:
            listed = '", "'.join(chosen)
            said = clean(f'asked "{_extract_question(question)}", chose "{listed}"')
            yield RecordText(Role.USER, Origin.USER, TurnKind.CHOICE, said, call, tool)
        note = read_mapping(read_mapping(notes).get(question)).get("notes")
        typed.append(note if type(note) is str else "")
        for text in typed:
            if text.strip() and text != _OTHER:
                yield RecordText(Role.USER, Origin.USER, TurnKind.MESSAGE, clean(text).strip(), call, tool)


def _extract_question(question: str) -> str:
    """Return the last sentence that is a question. The text before it is the assistant's, and nobody agreed to it."""
    found = [one for one in list_texts(question) if prose.QUESTION_END.search(one)]
    return found[-1] if found else question


def _labels(options: object) -> list[str]:
    return [one["label"] for one in mappings(options) if type(one.get("label")) is str and one["label"]]


def _split_answer(answer: str, labels: list[str], *, many: bool) -> tuple[list[str], str]:
    """Divide an answer into the chosen options and the text that was typed after them."""
    if answer in labels:
        return [answer], ""
    if not many:
        return [], answer
    left = sorted(labels, key=len, reverse=True)
    chosen: list[str] = []
    while (label := next((one for one in left if answer == one or answer.startswith(f"{one}, ")), None)) is not None:
        left.remove(label)
        chosen.append(label)
        answer = answer[len(label) :].removeprefix(", ")
    return chosen, answer
