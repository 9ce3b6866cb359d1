"""Read the text of content blocks from JSON values of unknown form."""

from typing import Any

from memoryd.transcripts.fields import type_name
from memoryd.transcripts.lines import clean

_OUTPUTS = ("_result", "_results", "_output")


def block_text(content: object) -> str:
    """Return the text of a string or of a list of blocks. A block without text becomes a marker such as `[image]`."""
    if type(content) is str:
        return clean(content)
    return "" if type(content) is not list else "\n".join(filter(None, map(_one_block, content)))


def has_words(block: dict[str, Any]) -> bool:
    """Return True if a block has text of its own, so that it shows as more than a marker."""
    return type(block.get("text")) is str or type(block.get("content")) is str


def is_output(kind: object) -> bool:
    """Return True if a block of this type is a tool's output, such as `tool_result` or `computer_call_output`."""
    return type(kind) is str and kind.endswith(_OUTPUTS)


def output_text(block: dict[str, Any]) -> str:
    """Return the text of a block for which `is_output` is True."""
    return block_text(block.get("content", block.get("output"))) or (block_text([block]) if has_words(block) else "")


def _one_block(block: Any) -> str:
    if type(block) is str:
        return clean(block)
    if type(block) is not dict:
        return ""
    for key in ("text", "content"):
        text = block.get(key)
        if type(text) is str:
            return clean(text)
    kind = block.get("type")
    return f"[{type_name(kind)}]" if kind else ""
