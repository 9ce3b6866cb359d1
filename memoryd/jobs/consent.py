"""Consent: whether an agent that was asked for one word says yes to refining its memory."""

from __future__ import annotations

import re
import unicodedata

# Not among them is what begins other sentences as well, such as "si" (if), "ya" (already) and "da" (since).
_YES = frozenset(
    """
    yes y yeah yep yup aye true agreed ja jawohl joo jah jā oui sí sì sim да так ano áno tak taip igen evet kyllä
    ναι نعم כן हाँ हां có vâng ใช่ はい ええ 是 是的 好 好的 同意 对 對 네 예 그래 동의
    """.split()  # noqa: RUF001, SIM905
)
_NO = frozenset(
    """
    no n nope nah not never false decline declined nein nicht non não nu nee niet nej nei ei nie ne nem
    hayır нет не ні ne όχι لا לא नहीं tidak không ไม่ いいえ いや 不 不是 不要 不同意 否 아니 아니요 아니오
    """.split()  # noqa: RUF001, SIM905
)
_LABEL = re.compile(
    r"\A[\W_]*(?:(?:my|final|the|meine|ma|mi|la) )?"
    r"(?:answer|consent|decision|reply|response|antwort|réponse|respuesta|risposta|resposta|antwoord|odpowiedź|ответ|答案|"
    r"回答|答え|답변|대답)[^\w:=\n]*[:=\n]"
)
_WORD = re.compile(r"[\W_]*([^\W_](?:[^\W_]|[\u0300-\u036f\u0900-\u0963\u0e30-\u0e4e'])*)\s*(\?)?")


def read(text: str) -> bool | None:
    """Return whether the first word of an answer is a yes; None where it is neither yes nor no.

    Marks of Markdown and JSON, and a label such as "Answer:", may be before that word.
    """
    said = unicodedata.normalize("NFKC", text).casefold()
    found = _WORD.match(_LABEL.sub("", said, count=1))
    word = found[1] if found and not found[2] else ""
    return True if word in _YES else False if word in _NO else None
