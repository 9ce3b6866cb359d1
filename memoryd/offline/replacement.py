"""Find out whether a person's later statement plainly ends an earlier one, or gives its subject another value.

A later statement ends an earlier one in two cases. Either it says so in plain words ("no longer", "instead of", "from A
to B", "is now"), and contains everything that the older one says, except for the kind of a value. Or it has the same
words in another order. If two statements give one subject different values without such words, they compete, and both
stay. A question, plan or supposition ends nothing.
"""

# ruff: noqa: RUF001 - the cues of other languages

import re
from functools import lru_cache
from typing import NamedTuple

from memoryd.offline.words import list_content_words
from memoryd.text import normal, prose
from memoryd.text.content import strip_label
from memoryd.text.sentences import list_texts
from memoryd.text.word_lists import list_words
from memoryd.text.wording import STOP, expand, find_stem, fold

_STAMP = re.compile(r"\s*\((?:as of )?\d{4}[-\d/]*\)")
_CLAUSE = re.compile(r"[,;:—–、](?=\D)|\s(?:and|but|und|aber|sondern|et|mais|y|pero|sino|e|ma|mas|en|maar|и|а|но)\s")
_ASKS = re.compile(r"[?？؟]\W*$")
# Words of a sentence that is a wish, a plan, a condition, or another person's report.
_SUPPOSED = re.compile(
    r"\b(?:if|unless|until|once|when|whether|would|could|should|might|may|maybe|perhaps|probably|will|going to|plan\w*|"
    r"want\w*|wish\w*|hope\w*|consider\w*|propos\w+|suggest\w*|let's|almost|nearly|never|temporarily|says?|said|thinks?|"
    r"wenn|falls|sobald|ob|würden?|könnten?|sollten?|vielleicht|wahrscheinlich|werden|wollen|möchten?|planen|hoffen|"
    r"fast|beinahe|sagt|meint|si|quand|peut-être|pourra\w+|devrai\w+|voudrai\w+|voulons|veut|allons|va|prévo\w+|presque|dit|"
    r"cuando|quizás?|tal vez|podría\w*|debería\w*|quer\w+|vamos a|planea\w*|casi|dice|se|quando|forse|potre\w+|"
    r"dovre\w+|vorre\w+|vogliamo|talvez|poder\w+|als|zodra|misschien|zou\w*|willen|zullen|bijna|zegt|если|когда|может|возможно|"
    r"будем|будет|хотим|хочет|планируем|почти|говорит)\b"
    r"|如果|要是|可能|也许|打算|计划|会不会|想要?|差点|据说|もし|かも|予定|つもり|たい|なら|そうです|만약|면\b|예정|싶",
    re.IGNORECASE,
)
# Something has ended; the same clause says what.
_NO_LONGER = re.compile(
    r"\bno longer\b|\b(?:not|never|\w+n't)\b.*\b(?:any ?more|any longer)\b"
    r"|\b(?:nicht|kein\w{0,2}|nie)\b.*?\bmehr\b(?! als)"
    r"|\b(?:ne|n') ?.*\bplus\b(?! (?:que|tard|vite|de))|\bplus (?:jamais )?(?:de|du) |\bya no\b|\bnon?\b.*\bpiù\b"
    r"|\b(?:já não|não\b.*\bmais)\b|\b(?:niet|geen)\b.*\bmeer\b(?! dan)|\b(?:больше|уже) (?:не|нет)\b"
    r"|不再|已经不|已經不|もう.*?(?:ない|ません|やめ)|(?:더 이상|이제).*?(?:않|아니|없|안 )",
    re.IGNORECASE,
)
_MARKS = re.compile(
    r"\b(?:any ?more|any longer|no longer|mehr|plus|más|più|mais|meer|больше|уже)\b|不再|もう|やめ|더 이상|이제"
)
_ANY = r"[^,;:，；、。]{1,60}?"
_VALUE, _NEW = rf"(?P<old>{_ANY})", rf"(?P<new>{_ANY})"
_END = (
    r"(?=[,;:.!，；。]|$|\s(?:for|in|on|at|für|bei|im|pour|dans|para|en|per|voor|для|now|from now on|because|since)\s)"
)
_INSTEAD = re.compile(
    rf"\b(?:instead of|rather than|in place of|anstelle von|anstatt|statt|au lieu d(?:e |')|plutôt qu(?:e |')|"
    rf"en (?:lugar|vez) de|invece d(?:i |')|al posto di|em vez de|no lugar de|in plaats van|вместо)\s*({_ANY}){_END}"
    rf"|(?:而不是|代替|取代)\s*({_ANY}){_END}"
    r"|([A-Za-z0-9.]+|[\u30a0-\u30ff\u4e00-\u9fff]+)(?:の代わりに|ではなく)|(\S+) 대신",
    re.IGNORECASE,
)
_CHANGES_LIST = (
    r"\b(?:moved|switched|migrated|changed|upgraded|downgraded|relocated|renamed)\b(?P<what>.*?) from {o} to {n}{e}",
    r"\breplaced(?P<what>) {o} (?:with|by) {n}{e}",
    r"(?P<what>.*?)\bvon {o} (?:auf|zu|nach|in) {n} (?:um|ge|migriert|verlegt|verschoben|überge)\w*",
    r"(?P<what>.*?)(?:haben|hat|habe|wurde) {o} durch {n} ersetzt",
    r"\b(?:(?:pass|migr|déménag|chang|bascul|transfér|déplac)ée?s?)\b(?P<what>.*?) (?:de |d'){o} (?:à|vers|sur) {n}{e}",
    r"\bremplacé(?P<what>) {o} par {n}{e}",
    r"\b(?:cambi|migr|pas|mud|movi|traslad|troc|pass)\w{1,5}\b(?P<what>.*?) de {o} (?:a|al|para|pra) {n}{e}",
    r"\b(?:reempla\w+|sustitu\w+|substitu\w+|troc\w+)(?P<what>) {o} por {n}{e}",
    r"\b(?:passat|migrat|spostat|trasferit|cambiat)\w(?P<what>.*?) d[ae] {o} a {n}{e}",
    r"\bsostituito(?P<what>) {o} con {n}{e}",
    r"(?P<what>.*?)\bvan {o} naar {n} (?:over|ge|ver)\w+",
    r"\b(?:пере(?:ехал|шл|нес|вел|ш[её]л)|мигрировал|сменил)\w*(?P<what>.*?) (?:с|со|из) {o} (?:на|в) {n}{e}",
    r"\bзаменил\w*(?P<what>) {o} на {n}{e}",
    r"(?P<what>.*?)从{o}(?:迁移|换|搬|切换|升级|改|转)(?:到|成|为|至)了?{n}{e}",
    r"(?P<what>.*?)把{o}换成了?{n}{e}",
    r"(?P<what>(?:[^,、]*[をは])?)(?P<old>[^をは、,]+?)から{n}(?:に|へ)(?:移|変|切り替|乗り換|引っ越)",
    r"(?P<what>.*?)(?P<old>\S+)에서 {n}(?:으로|로) (?:이전|옮|변경|전환|바꾸|바꿨|이사)",
)
_CHANGES = tuple(
    re.compile(one.replace("{o}", _VALUE).replace("{n}", _NEW).replace("{e}", _END), re.IGNORECASE)
    for one in _CHANGES_LIST
)
_NOW = re.compile(
    r"\b(?:now|these days|jetzt|inzwischen|mittlerweile|nun|maintenant|désormais|ahora|actualmente|ora|adesso|agora|"
    r"tegenwoordig|nu|теперь|сейчас)\b|现在|現在は?|如今|目前|今は?|이제|지금은?",
    re.IGNORECASE,
)
_THIRD = re.compile(
    r"\b(?:he|she|they|er|il|elle|ils|elles|él|ella|ellos|lui|lei|loro|ele|ela|eles|hij|zij|он|она|они)\b|[他她彼]"
)
_FIRST = re.compile(
    r"\b(?:i|i'm|my|we|we're|our|us|ich|mein\w*|wir|unser\w*|uns|je|j'\w+|mon|ma|mes|nous|notre|nos|on|yo|mi|mis|me|"
    r"nosotros|nuestr\w+|nos|io|mia|mio|noi|nostr\w|eu|meu|minha|nós|nosso|nossa|ik|mijn|wij|we|ons|onze|я|мой|моя|мы|"
    r"наш\w*|у меня|у нас)\b|[我私僕내제우]"
)
_DENIES = re.compile(
    r"\b(?:not|no|never|without|hates?|dislikes?|avoids?|allergic|nicht|kein\w*|nie|ohne|hass\w*|pas|jamais|sans|déteste|"
    r"nunca|sin|odio|non|mai|senza|não|sem|niet|geen|nooit|не|нет|никогда|без)\b|n't\b|[不没沒]|ない|ません|않|안 ",
    re.IGNORECASE,
)
# Words without content that such statements have besides small words, one form of each.
_GENERIC = frozenset(find_stem(fold(word)) for word in list_words("generic"))
# Nouns that only name the kind of a value.
_KINDS = frozenset(find_stem(expand(fold(word))) for word in list_words("kinds"))
_WIDE_GENERIC = re.compile(
    r"我们|我們|我的|我|现在|現在|如今|已经|已經|不再|使用|采用|改用|运行|運行|迁移|切换|升级|换成|搬|代替|取代|而不是|数据库|部署|工作"
    r"|从|從|到|了|在|的|用|住|是|上|把|移行|変更|使用|利用|稼働|動|引越|乗換|切替|私|僕|今|代"
)
_PARTICLES = re.compile(r"(?<=[\uac00-\ud7afA-Za-z0-9])(?:에서|으로|로|은|는|이|가|을|를|에|의|도|와|과)(?=\s|$|[.,])")
_TOKEN = re.compile(r"[^\W_]+(?:[.'-][^\W_]+)*")
_PARTS = re.compile(r"[\u4e00-\u9fff\u3005]+|[\u30a0-\u30ff]+|[\u0e00-\u0eff]+|[^\u3040-\u30ff\u4e00-\u9fff\u3005]+")
# The subject of a statement with its verb: "my editor is", "I live in".
_WHOSE = (
    r"my|our|the|mein\w*|unser\w*|der|die|das|mon|ma|mes|notre|nos|le|la|les|mi|mis|nuestr[oa]s?|el|los|las|il mio|"
    r"la mia|il|lo|i|o|a|meu|minha|nosso|nossa|mijn|onze|ons|de|het|мо[йяеёи]|наша?|наше|наши"
)
_IS = (
    r"is|are|ist|sind|heißt|est|sont|s'appelle|es|son|está|se llama|è|sono|é|são|zijn|runs on|läuft auf|"
    r"tourne sur|corre en|—|-"
)
_LIVES = (
    r"(?:i|we|ich|wir|je|nous|ik|я|мы)\s+(?:live|work|wohnen?|leben?|arbeiten?|habite|habitons|vis|travaille|woon|werk|"
    r"живу|живём|живем|работаю)\s+(?:in|at|for|as|bei|für|als|à|en|chez|comme|pour|в|на)|j'habite (?:à|en)|"
    r"vivo (?:en|a)|trabajo (?:en|para)|abito a|lavoro (?:a|per|da)|moro em|trabalho (?:na|no|em)"
)
_GIVEN = r"([^,;:!?()]{1,60})"
_FRAME = re.compile(
    rf"((?:(?:{_WHOSE})\s+|l')[^,;:.!?()]{{1,50}}?)\s+(?:{_IS})\s+{_GIVEN}|({_LIVES})\s+{_GIVEN}"
    rf"|((?:мо[йяеёи]|наша?|наше|наши)\s+\w+)\s+{_GIVEN}"
    rf"|((?:내|우리|제)\s+[^\s,]{{1,12}}?)(?:은|는|이|가)\s+([^\s,]{{1,20}}?)(?:입니다|이다|이에요|예요)?"
    r"|(我们?的[^是在,]{1,8}|我们?住|(?:私の)?[^はが、]{1,12}(?=は))(?:是|在|叫|は)(.{1,30}?)(?:です|だ|になりました)?",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"[,;]?\s+(?:because|weil|parce qu|porque|perché|omdat|потому что)\b.*|[，,]?\s*(?:因为|由于).*", re.IGNORECASE
)
_DECIDED_LIST = "decided decide entschieden beschlossen décidé decidido deciso besloten решили"
_DECIDED = frozenset(map(find_stem, _DECIDED_LIST.split()))
_SINGLE = re.compile(
    r"\b(?:name|favou?rite \w+|preferred \w+|lieblings\w+|\w+ préférée?|\w+ favorit[oa]|\w+ preferit[oa])\b"
    r"|\bлюбим\w+ \w+|最喜欢|好きな",
    re.IGNORECASE,
)
_LONGEST = 300  # characters; longer sentences are skipped, because time grows with the square of the length
_LONGEST_VALUE = 5  # words
_FEWEST_REORDERED = 3
_SAME_SUBJECT = 0.6  # two statements about one thing share this part of their content words, numbers aside
_FEWEST_SHARED = 3
_MOST_BEFORE = 2  # words before "instead of", if nobody is named who uses the new thing


class ParsedStatement(NamedTuple):
    """Hold the content of a statement in a form that can be compared with others."""

    words: frozenset[str]  # stems of its content words, with numbers
    order: tuple[str, ...]  # all its words, sorted: equal for the same words in another order
    subject: str  # if the statement gives it a value; otherwise empty
    value: str
    shape: tuple[str, ...]  # of the value: its small words, and whether it has a number or a name


@lru_cache(maxsize=1 << 15)
def read(text: str) -> ParsedStatement:
    """Return the parsed content of `text`; questions and suppositions give no value."""
    body = _STAMP.sub("", strip_label(text)).strip()
    said = fold(body)
    order = tuple(sorted(said if prose.is_wide(said) else _TOKEN.findall(normal.normalize(body))))
    return ParsedStatement(_words(said), order, *_parse_value(body))


@lru_cache(maxsize=1 << 12)
def find_ended(text: str) -> tuple[frozenset[str], ...]:
    """Return the words of each thing that `text` plainly says has ended."""
    said = fold(_REASON.sub("", _STAMP.sub("", strip_label(text))))
    is_plain = not _ASKS.search(said) and not _SUPPOSED.search(said)
    return tuple(one for one in (_find_ended(said) if is_plain else ()) if one)


def is_ended_by(newer: str, older: str) -> bool:
    """Return True if `newer`, which is known to be later, plainly says that `older` no longer holds."""
    if len(list_texts(_STAMP.sub("", strip_label(older)))) != 1:
        return False
    # If a decision ends, its reason ends too.
    words = read(_REASON.sub("", older)).words - _KINDS - _DECIDED
    if _reorders(newer, older) or (words and words <= read(newer).words and _ends(newer, older)):
        return True
    return _NOW.search(fold(newer)) is not None and _is_other_value(newer, older)


def is_outdated_by(newer: str, older: str) -> bool:
    """Return True if `newer`, later in the same work, denies `older` or says it with another number."""
    held, told = _list_keys(older), _list_keys(newer)
    words = [frozenset(key for key in keys if not key[0].isdigit()) for keys in (held, told)]
    shared, most = len(words[0] & words[1]), max(map(len, words))
    if shared < max(_FEWEST_SHARED, _SAME_SUBJECT * most):
        return False
    is_denied = denies(newer) and not denies(older)
    return is_denied or bool(held - told - words[0] and told - held - words[1]) or is_ended_by(newer, older)


@lru_cache(maxsize=1 << 12)
def _list_keys(text: str) -> frozenset[str]:
    return frozenset(list_content_words(strip_label(text)))


def is_competing(newer: str, older: str) -> bool:
    """Return True if both give the same subject different values, and nothing says which one holds."""
    words = read(older).words
    about = [words - gone for gone in find_ended(newer) if gone <= words]
    is_of_subject = any(rest & read(newer).words for rest in about)
    return _is_other_value(newer, older) or (is_of_subject and _ends(newer, older))


def _reorders(newer: str, older: str) -> bool:
    order = read(newer).order
    is_same = order == read(older).order and len(order) >= _FEWEST_REORDERED and denies(newer) == denies(older)
    return is_same and not _ASKS.search(newer) and normal.normalize(newer) != normal.normalize(older)


def _ends(newer: str, older: str) -> bool:
    words = read(older).words
    if denies(older) or not any(gone <= words for gone in find_ended(newer)) or find_ended(older):
        return False
    is_of_other = _FIRST.search(fold(older)) and _THIRD.search(fold(newer)) and not _FIRST.search(fold(newer))
    return not is_of_other


def _is_other_value(newer: str, older: str) -> bool:
    new, old = read(newer), read(older)
    is_same = bool(new.subject) and (new.subject, new.shape) == (old.subject, old.shape)
    return is_same and new.value != old.value and not denies(older) and not denies(newer)


def denies(text: str) -> bool:
    """Return True if `text` says that something is not so."""
    return _DENIES.search(fold(text)) is not None


def _words(folded: str) -> frozenset[str]:
    if prose.is_wide(folded):
        folded = _WIDE_GENERIC.sub(" ", folded)
    folded = _PARTICLES.sub(" ", folded)
    found = set()
    for token in _TOKEN.findall(folded):
        for word in _PARTS.findall(token) if prose.is_wide(token) else (token,):
            bare = re.sub(r"^[ldjnqs]'|'s$", "", word)
            if bare and bare not in STOP and bare not in _GENERIC and find_stem(expand(bare)) not in _GENERIC:
                found.add(find_stem(expand(bare)))
    return frozenset(found)


def _find_ended(said: str) -> list[frozenset[str]]:
    """Return the words of each thing that a sentence says has ended."""
    found = []
    for sentence in (one for one in list_texts(said) if len(one) <= _LONGEST):
        for clause in _CLAUSE.split(sentence):
            if _NO_LONGER.search(clause):
                rest = _NO_LONGER.sub(lambda so: _MARKS.sub(" ", so[0]), clause)
                found.append(_words(_NOW.sub(" ", rest)))
        if instead := _INSTEAD.search(sentence):
            old = _words(next(one for one in instead.groups() if one))
            before = _words(sentence[: instead.start()]) - old
            is_mine = _FIRST.search(sentence) is not None
            found += [old] if is_mine or len(before) <= _MOST_BEFORE else []
        for pattern in _CHANGES:
            if (change := pattern.search(sentence)) and not _DENIES.search(sentence[: change.end()]):
                found.append(_words(change["old"]) | _words(change["what"]))
                break
    return found


def _parse_value(body: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the subject of a statement, the value given to it, and the value's shape; all empty without a value."""
    plain = " ".join(_NOW.sub(" ", body).split()).rstrip(".!。！").replace("’", "'")
    found = _FRAME.fullmatch(plain) if len(plain) <= _LONGEST else None
    if found is None or _SUPPOSED.search(fold(body)):
        return "", "", ()
    subject, value = [one.strip() for one in found.groups() if one][:2]
    tokens = _TOKEN.findall(value)
    has_number = any(map(str.isdigit, "".join(tokens)))
    has_name = any(one[:1].isupper() or prose.is_wide(one) for one in tokens)
    if not (has_number or has_name or _SINGLE.search(subject)) or len(tokens) > _LONGEST_VALUE:
        return "", "", ()
    small = tuple(one.casefold() for one in tokens if one.casefold() in STOP)
    subject = " ".join(fold(subject.replace("—", " ").replace(" - ", " ")).split())
    return subject, fold(value), (*small, "number" * (has_number and not has_name), "name" * has_name)
