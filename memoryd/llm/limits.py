"""What a server says about lengths when it refuses a request: the reply may not be that long, or the whole may not.

There is no common form. The patterns below are the wordings of OpenAI, Azure, vLLM, SGLang, llama.cpp, LM Studio,
Ollama, Groq, OpenRouter, Mistral, Anthropic, DeepSeek, Together, Gemini and Volcengine, as their errors read. An error
that states a number is read for it; one without a number still says which of the two lengths it is about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LEAST = 16  # tokens; a smaller number in an error is no limit
_NUMBER = r"[`'\"]?(?P<n>\d[\d,]*)"
_MAX = r"max_(?:completion_|output_|new_)?tokens"


def _patterns(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


# Question and reply together, with the number.
_CONTEXT_OF = _patterns(
    rf"maximum context length (?:is|of) (?:only )?{_NUMBER}",
    rf"{_NUMBER} maximum context length",
    rf"context length of (?:only )?{_NUMBER}",
    rf"context (?:length|window|size) \(?(?:of )?{_NUMBER}",
    rf"context limit: \d+ \+ \d+ > {_NUMBER}",
    rf"max_new_tokens\W+must be <=? {_NUMBER}",
    rf"tokens > {_NUMBER} maximum",
    rf"\bn_ctx\W{{1,4}}{_NUMBER}",
    rf"\blimit {_NUMBER}, requested",
)
# The reply alone, with the number.
_OUTPUT_OF = _patterns(
    rf"at most {_NUMBER} (?:completion|output) tokens",
    rf"> {_NUMBER}, which is the maximum allowed number of output",
    rf"range of \W?{_MAX}\W+(?:is|should be) \[\d+, ?{_NUMBER}\]",
    rf"{_MAX}\W+(?:must|should|has to) be (?:less than or equal to|at most|no more than|<=?) ?{_NUMBER}",
    rf"{_MAX}\b.{{0,200}}(?:less than or equal to|expected a value <=) {_NUMBER}",
    rf"(?:less than or equal to|expected a value <=) {_NUMBER}.{{0,200}}{_MAX}\b",
    rf"maxOutputTokens\b.{{0,200}} to {_NUMBER} \((?:in|ex)clusive\)",
    rf"fewer max_tokens.{{0,100}}can only afford {_NUMBER}",
)
_OUTPUT = _patterns(rf"{_MAX}\W+(?:\w+\W+){{0,6}}?(?:too (?:large|high|big)|exceeds?|must be (?:less|lower|smaller))")
_CONTEXT = _patterns(
    r"context[_ ](?:length|window|size)|maximum context|exceeds? (?:the )?(?:available |model'?s )?context|"
    r"too many (?:input )?tokens|(?:prompt|input) is too long|reduce the length|larger than the context|"
    rf"{_MAX} must be at least 1\b|truncate prompt with n_keep|request too large"
)


@dataclass(frozen=True, slots=True)
class RefusedLength:
    """Which length was refused, and the most that the server takes, where it says."""

    is_output: bool  # the reply alone; else question and reply together
    tokens: int | None


def read(text: str) -> RefusedLength | None:
    """Return what the text of an error says about a length; None where it is about something else."""
    tokens = _find_number(_CONTEXT_OF, text)
    if tokens is not None:
        return RefusedLength(is_output=False, tokens=tokens)
    tokens = _find_number(_OUTPUT_OF, text)
    if tokens is not None or any(pattern.search(text) for pattern in _OUTPUT):
        return RefusedLength(is_output=True, tokens=tokens)
    return RefusedLength(is_output=False, tokens=None) if any(pattern.search(text) for pattern in _CONTEXT) else None


def _find_number(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        found = pattern.search(text)
        if found and int(found["n"].replace(",", "")[:12]) >= _LEAST:
            return int(found["n"].replace(",", "")[:12])
    return None
