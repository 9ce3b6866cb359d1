"""Read signals from the wording of a user's message, in the commonest languages.

A correction says that a known or recent statement is wrong. Reinforcement says that something should stay as it is.
Both are hints of a new fact. An acknowledgement only keeps the conversation going, and an upload only sends a file.
"""

import re
from enum import StrEnum

from memoryd.text.content import list_stems
from memoryd.text.sentences import list_texts
from memoryd.text.word_lists import list_words
from memoryd.text.wording import find_stem, fold, normalize

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
    r"прикрепил\w*|这是|附件|添付)\b[^.!?\n]{0,40}\b(?:files?|image|screenshot|document|attachment|pdf|log|csv|bild|"
    r"datei|fichier|archivo|documento|immagine|arquivo|bestand|файл)?[.!:]?$",
    re.IGNORECASE,
)
_ACKS = frozenset({"", *map(fold, list_words("acknowledgements"))})  # signs alone are one, too
_SIGNS = re.compile(r"[\s.,!?;:…~。！？、，👍👌🙏✅🎉😀😊❤️\ufe0f]+")  # noqa: RUF001
_PARTS = re.compile(r"[.,!?;…。！？、，]+")  # noqa: RUF001
_CORRECTS = re.compile(
    r"\b(?:that(?:'s| is| was)? (?:not (?:right|correct|true|what i)|wrong|incorrect|a mistake)|you(?:'re|"
    r" are) (?:wrong|mistaken)|you (?:misunderst\w+|got (?:that|it|this) wrong)|i meant|what i meant|"
    r"i didn't (?:mean|say|ask)|i did not (?:mean|say)|(?:it|that) should (?:be|have been)|correction|instead of|"
    r"rather than|stop doing|don't do that)\b|^(?:no|nope|nah|wrong|actually|not quite)\b[ ,.!:—–-]|"  # noqa: RUF001
    r"\b(?:das (?:stimmt|ist) (?:so )?nicht|(?:das ist )?falsch|ich meinte|stattdessen|du irrst|eigentlich)\b|"
    r"^nein\b[ ,.!]|\b(?:c'est (?:faux|incorrect)|ce n'est pas (?:ça|correct|vrai)|je voulais dire|en fait|plutôt que|"
    r"tu te trompes)\b|^non\b[ ,.!]|\b(?:(?:eso )?no es (?:correcto|cierto|así|eso)|está mal|quise decir|quería decir|"
    r"en realidad|te equivocas|en lugar de)\b|\b(?:(?:è )?sbagliato|non è (?:corretto|vero|così)|intendevo|volevo dire"
    r"|in realtà|invece di|ti sbagli)\b|\b(?:(?:está|tá) errado|não é (?:isso|verdade|correto)|(?:eu )?quis dizer|"
    r"na verdade|em vez de)\b|\b(?:dat (?:klopt|is) niet|(?:dat is )?fout|ik bedoelde|eigenlijk|in plaats van)\b|"
    r"^nee\b[ ,.!]|不对|不對|错了|錯了|不是这样|不是這樣|我的意思是|其实|其實|应该是|應該是|搞错|違います|違う|"
    r"間違(?:い|って|え)|そうじゃな|ではなく(?:て)?|じゃなくて|実は|(?:это|ты|вы) не(?:верно|правильно| так)|неверно|"
    r"неправильно|ошиб(?:ка|ся|лась|лись)|я имел[аи]? в виду|на самом деле|^нет\b[ ,.!]|틀렸|그게 아니|아니라|사실은",
    re.IGNORECASE,
)
_REINFORCES = re.compile(
    r"\b(?:exactly(?: like| what| right)|perfect|that's (?:it|right|exactly|what i (?:want|like|meant))|"
    r"keep (?:doing|it|this|that)|just like that|i (?:like|love) (?:it|this|that|how)|(?:much )?better|well done|"
    r"more of (?:this|that))\b|\b(?:genau so|perfekt|weiter so|so (?:mag|will) ich|gefällt mir|"
    r"behalte? .{0,20}bei)\b|\b(?:c'est parfait|parfait|exactement|continue comme ça|j'aime bien|comme ça)\b|"
    r"\b(?:perfecto|exacto|exactamente|sigue así|así me gusta|me gusta (?:así|cómo))\b|\b(?:perfetto|esatto|"
    r"esattamente|continua così|mi piace (?:così|come))\b|\b(?:perfeito|exatamente|continue assim|é isso|"
    r"gosto assim)\b|\b(?:perfect|precies(?: zo)?|ga zo door|zo vind ik het)\b|完美|正是|就是这样|就是這樣|继续保持|"
    r"繼續保持|很好|这样就对|這樣就對|完璧|その通り|この調子|まさに|そのまま(?:続け|で)|いい感じ|отлично|именно так|"
    r"так и (?:делай|надо)|продолжай так|идеально|мне нравится|완벽|바로 그거|이대로",
    re.IGNORECASE,
)


_LETTER = r"(?:[^.!?;\n。]|\.(?=\S)|(?<=\b(?:St|Dr|Mr|Ms|Co))\.)"
_GAP = rf"{_LETTER}{{1,60}}?"
_POLITE = r"(?:,? ?(?:bitte|s'il (?:te|vous) plaît|por favor|per favore|alsjeblieft|alstublieft|пожалуйста),?)?,?"
# An order to forget: at the beginning of a clause, or after words of request.
_FORGET = re.compile(
    r"(?:(?:^|[.!?;:,—\n])\s*|\b(?:please|kindly|just|you (?:can|may|should|must)|(?:can|could|would|will) you|"
    r"(?<!n't )(?<!not )(?:want|like|need|asked) you to|ok(?:ay)?|now|also)\s+)(?:(?:please|kindly|just|also|now)\s+)*"
    r"(?:forget (?:that\b|about (?:my|me|what|that)\b|what i\b|everything (?:i|about)\b|all (?:i|about)\b|my\b|i\b)|"
    r"(?:delete|remove|erase)\b[^.!?\n]{1,60}\bfrom (?:your|the) memory\b)"
    rf"|\b(?<!ich )(?:vergiss|vergessen sie)\b{_POLITE} (?:dass|was ich|alles|meinen?|meine[mrs]|über mich)\b"
    r"|(?<![\w'])(?<!il )(?<!elle )(?<!on )(?<!qui )"
    r"(?:oublie|oubliez|(?:peux-tu|pouvez-vous|tu peux|vous pouvez|veuillez) oublier)"
    rf"{_POLITE} (?:qu[e'][^.!?\n]|ce que|tout ce|mon|ma|mes)\b"
    rf"|\b(?<!me )(?<!se )(?<!no )(?:olvida|olvide|olvídate|olvídese|puedes olvidar|puede olvidar){_POLITE}"
    r" (?:de )?(?:que|lo que|todo lo|mi|mis)\b"
    rf"|\b(?<!non )(?:dimentica|dimenticati|dimentichi|scorda|scordati|puoi dimenticare){_POLITE}"
    r" (?:che|di ciò|quello che|ciò che|tutto quello|il mio|la mia|i miei|le mie)\b"
    rf"|\b(?<!não )(?<!não se )(?<!nunca )(?<!ele )(?<!ela )(?:esque[cç]a|esqueça-se|esquece|pode esquecer){_POLITE}"
    r" (?:de )?(?:que|o que|do que|tudo o|meu|minha|meus|minhas)\b"
    rf"|\b(?<!ik )(?<!hij )(?<!niet )(?:vergeet){_POLITE} (?:dat|wat ik|alles wat|mijn)\b"
    rf"|\b(?<!не )забудь(?:те)?\b{_POLITE} (?:что|о том|вс[её],? что|про мо|мой|мою|мо[её]|о мо)"  # noqa: RUF001
    r"|(?:^|[,。!?;] ?|请|請|你可以|可以|麻烦你?|麻煩你?)(?:忘记|忘記|忘掉|忘了)(?=[^吧吗嗎带帶])"
    r"|(?:こと|話|件|それ)(?:について)?[をはも]?(?:全部|もう)?忘れて(?:ください|下さい|くれ|いい|ほしい|欲しい)"
    r"|(?:것|거|사실|말)[을은는]?\s*잊어\s*(?:줘|주세요|버려)",
    re.IGNORECASE,
)
# Something that was true has ended. "not … any more coffee" is an amount, "nicht mehr als" a comparison.
_ENDED = re.compile(
    rf"\b(?:not|never|cannot|\w+n't)\b{_GAP}\b(?:any ?more|any longer)\b"
    r"(?=\s*(?:[.,;:!—]|$|(?:and|but|because|since|so|now)\b))|\bno longer\b|\bnot any ?more\b|\b(?:nicht|kein\w{0,2}|"
    r"nie) mehr\b(?! als\b)|\bkein\w{0,2} \w+ mehr\b(?! als\b)"
    rf"|\b(?:ne |n')(?:(?!\bque\b){_LETTER}){{1,40}}?\b(?<!non )plus\b(?! (?:que|tard|tôt|vite|loin|souvent)\b)"
    r"|\bya no\b(?! más\b)"
    rf"|\bnon {_LETTER}{{0,60}}?\bpiù\b(?! (?:di|che|tardi|presto|spesso)\b)"
    rf"|\bjá não\b|\bnão {_LETTER}{{0,60}}?\bmais\b(?! (?:de|do que|que|tarde|cedo)\b)"
    r"|\bniet (?:\w+ )?meer\b(?! dan\b)|\bgeen (?:\w+ )?meer\b(?! dan\b)|\b(?:больше|уже) (?:не|нет)\b(?! (?:чем|"
    r"менее)\b)|不再|已[经經]不|我[们們]?(?!想)[^,。!?\n]{0,8}(?:不(?![用要行好知明想得])|[没沒]有)[^,。!?\n]{1,12}了|"
    r"もう(?!少し|一度|一回|ちょっと|すぐ)[^。!?\n]{1,30}?(?:ない|いません|ません|辞め|やめ)(?!か)|(?:더 이상|"
    r"이제(?:는)?)[^.!?\n]{1,30}?(?:않|아니|없|안 )",
    re.IGNORECASE,
)
_MACHINE = (
    r"(?!\w*(?:server|process|build|terminal|shell|session|script|job|pod|container|connection|laptop|phone|battery|"
    r"disk|vm|daemon|program|app|pc)\b)"
)
_DIED = re.compile(
    rf"\b(?:my|our) (?:{_MACHINE}[\w'-]+ ){{1,3}}"
    r"(?:(?:has |have )?(?:just |recently )?(?:died|passed away)|(?:is|are) dead)\b"
    rf"|\b(?:mein|unser)\w{{0,2}} (?:{_MACHINE}\w+ ){{1,2}}(?:ist|sind) (?:\w+ ){{0,2}}(?:gestorben|verstorben|tot)\b"
    r"|\b(?:mon|ma|mes|notre|nos) (?:[\w'-]+ ){1,2}(?:est|sont) (?:\w+ )?(?:morte?s?|décédée?s?)\b|\b(?:mi|mis|"
    r"nuestr[oa]s?) (?:\w+ ){1,2}(?:(?:se )?murió|falleció|ha (?:muerto|fallecido)|está muert[oa])\b|\b(?:mio|mia|"
    r"nostr[oa]|mi[eo]i?) (?:\w+ ){1,2}è (?:mort[oa]|deceduto|deceduta|mancat[oa])\b|\b(?:meu|minha|nosso|"
    r"nossa) (?:\w+ ){1,2}(?:morreu|faleceu)\b|\b(?:mijn|onze|ons) (?:\w+ ){1,2}is (?:\w+ )?(?:overleden|gestorven|"
    r"dood)\b|\b(?:мо[йяи]|наша?)\b(?: \w+){1,2} (?:умер(?:ла|ли)?|скончал(?:ся|ась)|погиб(?:ла)?)\b|(?:\b(?:умер(?:ла"
    r"|ли)?|скончал(?:ся|ась)) (?:мо[йяи]|наша?)\b)|我(?:的|家的?|们家的?)[^,。!?\n]{1,10}(?:死了|去世|过世|過世|走了)"
    r"|(?:私の|うちの|我が家の)[^。、!?\n]{1,12}(?:死んだ|死にました|死んでしま|亡くな)|(?:우리|내|"
    r"제)\s?[^.!?\n]{1,14}(?:죽었|돌아가셨|세상을 떠났)",
    re.IGNORECASE,
)
_LATER = r"(?! (?:later|tomorrow|then|next|when|after|yet|because|if|only|just|tonight|sure|today|soon)\b)"
_WORDS = r"(?:[\w']+ ){0,3}"
_MOVED = re.compile(
    rf"\bnow,? (?:and )?not{_LATER} \w|\bnow {_WORDS}(in|at|with|on|for) [^.!?;\n]{{1,40}}?,? not \1\b"
    r"|\bnot (in|at|with|on|for) [^.!?;,\n]{1,40},? (?:but )?(?:now )?\2 [^.!?;,\n]{1,40}\bnow\b"
    rf"|\bjetzt {_WORDS}(in|bei|mit|auf|an) [^.!?;\n]{{1,40}}?,? (?:und )?nicht \3\b"
    r"|\bmaintenant,? (?:et )?(?:pas|non) (?:à|en|chez|au|aux)\b"
    rf"|\bmaintenant {_WORDS}(?:à|en|chez|au|aux) [^.!?;\n]{{1,40}}?,? (?:et )?(?:pas|non|plus) (?:à|en|chez|au|aux)\b|"
    rf"\bahora,? (?:y )?no en\b|\bahora {_WORDS}en [^.!?;\n]{{1,40}}?,? (?:y )?no en\b|\b(?:adesso|ora) {_WORDS}(a|in|"
    rf"da) [^.!?;\n]{{1,40}}?,? (?:e )?non \4\b|\bagora {_WORDS}(?:em|na|no) [^.!?;\n]{{1,40}}?,? (?:e )?não (?:em|na|"
    rf"no)\b|\bnu {_WORDS}(in|bij|met|op) [^.!?;\n]{{1,40}}?,? (?:en )?niet \5\b"
    rf"|\b(?:теперь|сейчас) {_WORDS}(?:в|во|на) [^.!?;\n]{{1,40}}?,? (?:а )?не (?:в|во|на)\b"  # noqa: RUF001
    r"|(?:现在|現在|如今)(?:是)?在[^。!?\n]{1,20}[,]?(?:而)?不(?:是)?在|今は[^。!?\n]{1,20}(?:ではな|じゃな)|(?:지금|"
    r"이제)(?:은|는)?\s[^.!?\n]{1,20}(?:이지|에 있고|에 살고),?\s[^.!?\n]{1,15}아니",
    re.IGNORECASE,
)
# Before it in its sentence, these words make a condition, a report or a wish.
_SUPPOSED = re.compile(
    r"\b(?:if|when(?:ever)?|unless|until|once|in case|so that|as soon as|make sure|wenn|falls|sobald|damit|si|quand|"
    r"lorsque|cuando|se|quando|als|zodra|если|когда|чтобы)\b|如果|要是|もし|なら|면\b",
    re.IGNORECASE,
)
_END = re.compile(r"[.!?;。\n]")
# Words of a retraction that do not occur in the retracted statement.
_ENDING = frozenset(map(find_stem, map(fold, list_words("ended"))))


class Signal(StrEnum):
    """Name the hint of a message."""

    CORRECTION = "correction"
    REINFORCEMENT = "reinforcement"


def without_uploads(text: str) -> str:
    """Return `text` without the blocks and marks by which agents show an uploaded file."""
    return _UPLOADS.sub(" ", text).strip() if "[" in text or "<" in text else text.strip()


def says_nothing(text: str) -> bool:
    """Return True if `text`, without uploads, only sends a file or acknowledges a statement."""
    bare = without_uploads(text)
    if not bare or _HANDED.match(bare):
        return True
    parts = [_SIGNS.sub(" ", part).strip() for part in _PARTS.split(fold(bare))]
    return len(bare) <= _LONGEST_ACK and all(part in _ACKS for part in parts if part)


def after_assent(text: str) -> str | None:
    """Return the text after an acknowledgement that begins `text`, "Ann." of "OK, Ann."; None without one."""
    first, *rest = _PARTS.split(text, maxsplit=1)
    return "".join(rest) if _SIGNS.sub(" ", fold(first)).strip() in _ACKS else None


def find_signals(text: str) -> tuple[Signal, ...]:
    """Return the hints in `text`, a message of the user."""
    bare = without_uploads(text)
    found = (
        Signal.CORRECTION if _CORRECTS.search(bare) or is_retraction(bare) else None,
        Signal.REINFORCEMENT if _REINFORCES.search(bare) else None,
    )
    return tuple(one for one in found if one)


def is_retraction(text: str) -> bool:
    """Return True if `text`, a message of the user, plainly takes back a statement or ends a state.

    Examples are "please forget that I …", "I don't work at … anymore", "my dog died" and "in Bruges now, not in Ghent".
    A question or a condition ends nothing.
    """
    lines = map(normalize, without_uploads(text).splitlines())
    return any(_FORGET.search(line) is not None or _tells_an_end(line) for line in lines)


def takes_back(text: str, known: str) -> bool:
    """Return True if a sentence of `text` plainly takes back or ends the statement `known`.

    The sentence must have half of the content words of the statement, or no content word of its own besides them.
    """
    held = list_stems(known)
    for sentence in list_texts(without_uploads(text)):
        said = list_stems(sentence) - _ENDING if is_retraction(sentence) else frozenset()
        shared = said & held
        if shared and (2 * len(shared) >= len(held) or said <= held):
            return True
    return False


def _tells_an_end(line: str) -> bool:
    found = (match for pattern in (_ENDED, _DIED, _MOVED) for match in pattern.finditer(line))
    return any(not _is_supposed(line, match.start(), match.end()) for match in found)


def _is_supposed(text: str, start: int, end: int) -> bool:
    """Return True if the sentence around a passage is a question, or has "if" or a similar word before it."""
    head = _END.split(text[:start])[-1]
    mark = _END.search(text, end)
    return bool(_SUPPOSED.search(head)) or (mark is not None and mark[0] == "?")
