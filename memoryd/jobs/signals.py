"""Signals: what a user's message is beside its content, told by its wording in the commonest languages.

A correction says that something known or just said is wrong; reinforcement that something is to stay as it is. Both are
hints on where a new fact may be. An acknowledgement only keeps the talk going, and an upload only hands over a file.
"""

from __future__ import annotations

import re
from enum import StrEnum

from memoryd.text.wording import fold

_LONGEST_ACK = 60  # characters
_UPLOADS = re.compile(
    r"<(?P<tag>uploaded_files?|attachments?|files?|documents?)\b[^>]*>.*?(?:</(?P=tag)\s*>|\Z)"
    r"|\[(?:image|file|attachment|pasted text|screenshot|bild|datei|fichier|archivo|图片|文件|画像)\b[^\]\n]{0,200}\]"
    r"|!\[[^\]\n]{0,200}\]\([^)\n]{0,500}\)",
    re.IGNORECASE | re.DOTALL,
)
_HANDED = re.compile(
    r"^(?:here(?:'s| is| are)|see|attached(?: is| are)?|please find|i(?:'ve| have)? (?:just )?(?:uploaded|attached)|"
    r"uploaded|hier ist|anbei|voici|ci-joint|aquí está|adjunto|ecco|allego|aqui está|em anexo|hierbij|вот|"
    r"прикрепил\w*|"
    r"这是|附件|添付)\b[^.!?\n]{0,40}\b(?:files?|image|screenshot|document|attachment|pdf|log|csv|bild|datei|fichier|"
    r"archivo|documento|immagine|arquivo|bestand|файл)?[.!:]?$",
    re.IGNORECASE,
)
_ACK_LIST = """
ok|okay|okey|k|kk|yes|yep|yeah|yup|no|nope|sure|fine|great|good|nice|cool|perfect|awesome|excellent|thanks|
thank you|thx|ty|
got it|i see|understood|right|correct|exactly|agreed|done|go|go on|go ahead|continue|proceed|next|please|
please continue|
noted|duly noted|will do|got you|gotcha|roger|copy that|of course|certainly|absolutely|on it|my pleasure|no problem|
please do|do it|keep going|sounds good|looks good|lgtm|makes sense|hi|hello|hey|bye|good morning|
ja|nein|gut|super|danke|danke schön|vielen dank|genau|alles klar|klar|notiert|mache ich|
gerne|kein problem|weiter|mach weiter|passt|bitte|hallo|verstanden|
oui|non|d'accord|merci|merci beaucoup|parfait|très bien|bien sûr|noté|c'est noté|bien noté|entendu|
continue|vas-y|compris|bonjour|exactement|
sí|si|vale|gracias|muchas gracias|perfecto|bien|muy bien|sigue|continúa|adelante|anotado|claro|de acuerdo|por supuesto|
entendido|hola|exacto|
sì|va bene|grazie|grazie mille|perfetto|bene|continua|avanti|capito|annotato|d'accordo|certo|ricevuto|ciao|esatto|
sim|não|obrigado|obrigada|perfeito|certo|anotado|claro|combinado|beleza|continue|pode continuar|entendi|olá|exatamente|
nee|prima|bedankt|dank je|goed|ga door|genoteerd|duidelijk|komt goed|begrepen|precies|
да|нет|ок|хорошо|спасибо|отлично|понятно|ясно|принято|записал|записала|запомнил|запомнила|понял|поняла|конечно|дальше|продолжай|давай|привет|точно|именно|
好|好的|收到|记下了|記下了|明白了|我明白了|是|是的|对|對|行|可以|嗯|谢谢|謝謝|谢谢你|继续|繼續|明白|了解|知道了|没问题|不错|你好|
はい|いいえ|うん|了解|了解です|ありがとう|ありがとうございます|続けて|お願いします|いいね|完璧|わかりました|承知しました|かしこまりました|メモしました|もちろんです|こんにちは|
네|예|아니요|좋아요|감사합니다|고마워|계속|알겠습니다|알겠어요|네 알겠습니다|물론입니다
"""
_ACKS = frozenset(fold(one) for one in re.split(r"[|\n]+", _ACK_LIST))
_SIGNS = re.compile(r"[\s.,!?;:…~。！？、，👍👌🙏✅🎉😀😊❤️\ufe0f]+")  # noqa: RUF001
_PARTS = re.compile(r"[.,!?;…。！？、，]+")  # noqa: RUF001
_CORRECTS = re.compile(
    r"\b(?:that(?:'s| is| was)? (?:not (?:right|correct|true|what i)|wrong|incorrect|a mistake)|you(?:'re|"
    r" are) (?:wrong|mistaken)|"
    r"you (?:misunderst\w+|got (?:that|it|this) wrong)|i meant|what i meant|i didn't (?:mean|say|ask)|"
    r"i did not (?:mean|say)|"
    r"not anymore|no longer|(?:it|that) should (?:be|have been)|correction|instead of|rather than|stop doing|"
    r"don't do that)\b"
    r"|^(?:no|nope|nah|wrong|actually|not quite)\b[ ,.!:—–-]"  # noqa: RUF001
    r"|\b(?:das (?:stimmt|ist) (?:so )?nicht|(?:das ist )?falsch|ich meinte|nicht mehr|stattdessen|du irrst|"
    r"eigentlich)\b|^nein\b[ ,.!]"
    r"|\b(?:c'est (?:faux|incorrect)|ce n'est pas (?:ça|correct|vrai)|je voulais dire|en fait|plutôt que|"
    r"tu te trompes|ne .{1,30} plus)\b|^non\b[ ,.!]"
    r"|\b(?:(?:eso )?no es (?:correcto|cierto|así|eso)|está mal|quise decir|quería decir|en realidad|ya no|"
    r"te equivocas|en lugar de)\b"
    r"|\b(?:(?:è )?sbagliato|non è (?:corretto|vero|così)|intendevo|volevo dire|in realtà|non più|invece di|"
    r"ti sbagli)\b"
    r"|\b(?:(?:está|tá) errado|não é (?:isso|verdade|correto)|(?:eu )?quis dizer|na verdade|não mais|em vez de)\b"
    r"|\b(?:dat (?:klopt|is) niet|(?:dat is )?fout|ik bedoelde|eigenlijk|niet meer|in plaats van)\b|^nee\b[ ,.!]"
    r"|不对|不對|错了|錯了|不是这样|不是這樣|我的意思是|其实|其實|应该是|應該是|搞错|不再"
    r"|違います|違う|間違(?:い|って|え)|そうじゃな|ではなく(?:て)?|じゃなくて|もう.{1,12}(?:ない|ません)|実は"
    r"|(?:это|ты|вы) не(?:верно|правильно| так)|неверно|неправильно|ошиб(?:ка|ся|лась|лись)|я имел[аи]? в виду|"
    r"на самом деле|больше не\b|^нет\b[ ,.!]"
    r"|틀렸|그게 아니|아니라|사실은|더 이상",
    re.IGNORECASE,
)
_REINFORCES = re.compile(
    r"\b(?:exactly(?: like| what| right)|perfect|that's (?:it|right|exactly|what i (?:want|like|meant))|"
    r"keep (?:doing|it|this|that)|"
    r"just like that|i (?:like|love) (?:it|this|that|how)|(?:much )?better|well done|more of (?:this|that))\b"
    r"|\b(?:genau so|perfekt|weiter so|so (?:mag|will) ich|gefällt mir|behalte? .{0,20}bei)\b"
    r"|\b(?:c'est parfait|parfait|exactement|continue comme ça|j'aime bien|comme ça)\b"
    r"|\b(?:perfecto|exacto|exactamente|sigue así|así me gusta|me gusta (?:así|cómo))\b"
    r"|\b(?:perfetto|esatto|esattamente|continua così|mi piace (?:così|come))\b"
    r"|\b(?:perfeito|exatamente|continue assim|é isso|gosto assim)\b"
    r"|\b(?:perfect|precies(?: zo)?|ga zo door|zo vind ik het)\b"
    r"|完美|正是|就是这样|就是這樣|继续保持|繼續保持|很好|这样就对|這樣就對"
    r"|完璧|その通り|この調子|まさに|そのまま(?:続け|で)|いい感じ"
    r"|отлично|именно так|так и (?:делай|надо)|продолжай так|идеально|мне нравится"
    r"|완벽|바로 그거|이대로",
    re.IGNORECASE,
)


class Signal(StrEnum):
    """What a message hints at."""

    CORRECTION = "correction"
    REINFORCEMENT = "reinforcement"


def without_uploads(text: str) -> str:
    """Return `text` without the blocks and marks by which agents show an uploaded file."""
    return _UPLOADS.sub(" ", text).strip() if "[" in text or "<" in text else text.strip()


def says_nothing(text: str) -> bool:
    """Say whether `text`, uploads taken out, only hands over a file or acknowledges what was said."""
    bare = without_uploads(text)
    if not bare or _HANDED.match(bare):
        return True
    parts = [_SIGNS.sub(" ", part).strip() for part in _PARTS.split(fold(bare))]
    return len(bare) <= _LONGEST_ACK and all(part in _ACKS for part in parts if part)


def after_assent(text: str) -> str | None:
    """Return what follows an acknowledgement that begins `text`, "Ann." of "OK, Ann."; None where none does."""
    first, *rest = _PARTS.split(text, maxsplit=1)
    return "".join(rest) if _SIGNS.sub(" ", fold(first)).strip() in _ACKS else None


def signals(text: str) -> tuple[Signal, ...]:
    """Return what `text`, a message of the user, hints at."""
    plain = without_uploads(text)
    found = (
        Signal.CORRECTION if _CORRECTS.search(plain) else None,
        Signal.REINFORCEMENT if _REINFORCES.search(plain) else None,
    )
    return tuple(one for one in found if one)
