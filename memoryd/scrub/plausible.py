"""Judge whether a value is a secret, or a word, a name, code or a text such as "your key here".

Each function judges one value of bounded length. They are ordered by how clearly the context names a secret. A password
may be anything but a word of documentation. A token must not read as words. A value after a mere "key" must look
random. A value looks random if few of its neighbouring letters are often neighbours in English. The share is about 0.95
in words and names, and about 0.35 in random letters.
"""

import re

from memoryd.scrub.finding import PLACEHOLDER
from memoryd.text.word_lists import list_bytes

# bytes; of a longer value, only the beginning is judged
LENGTH_MAX = 256

_BIGRAMS = frozenset(list_bytes("common neighbours"))
_ALPHABETIC = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DIGIT = re.compile(rb"[0-9]")
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_SWITCH = re.compile(rb"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])|[a-z](?=[A-Z])")
_HEXADECIMAL = re.compile(rb"(?:0x)?[0-9a-fA-F]+")
# This is an accented Latin letter, or a Greek or Cyrillic letter.
_ACCENTED = re.compile(rb"[\xc3-\xd4][\x80-\xbf]")
_IDEOGRAPHS = re.compile(rb"(?:[\xe3-\xe9][\x80-\xbf]{2}){3}")
_UUID = re.compile(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HASH = re.compile(rb"(?i)(?:sha|md|blake)[0-9]{1,3}[a-z]?[:=_-]|ssh-|ecdsa-sha2|AAAA[BCE]3Nz")
_MASKED = re.compile(
    rb"(?i)redacted|censored|xxxx|\*\*\*|\.\.\.|!?\[[^\]]*\]\(|\[[^\]]*[a-z]-[a-z][^\]]*\][+*{)]|\xe2\x80\xa6"
    rb"|\xe2\x80\xa2\xe2\x80\xa2|<[^>]*>|example(?:key)?\Z"
)
_STAND_IN = re.compile(
    rb"(?i)(?:^|[^a-z])(?:your|my|insert|enter|replace|put|change)(?:[-_ ]?(?:me|this|it|here))?[-_ ]?"
    rb"(?:own|real|actual|secret|super|api|access|auth|github|openai|db|new|old)?[-_ ]?"
    rb"(?:api)?[-_ ]?(?:key|token|secret|password|passwd|pass|value|here)|"
    rb"change[-_ ]?me|place[-_ ]?holder|example(?![a-z])|dummy"
)
# Placeholders are made of these words. What remains without them shows whether somebody chose the value.
_STAND_IN_WORDS = re.compile(
    rb"(?i)your|my|insert|enter|replace|put|change|me|this|it|here|own|real|actual|super|api|access|auth|github|openai|"
    rb"db|new|old|client|user|admin|app|test|some|with|key|token|secret|passwd|password|pass|value|placeholder|example|"
    rb"dummy|jwt|service|local|dev|prod|goes|[^a-z0-9!-~]|[-_ ]"
)
# Documentation writes placeholders in one case, and counts from 0 or 1: `change_me_12`, `changeMe123`.
_NUMBERED = re.compile(rb"(?:my|change)[a-z]{0,16}[ _-]?[A-Z][a-z]{1,16}[ _-]?(?!0|123)[0-9]{2,}")
_FILLED_IN = re.compile(rb"\$[\w({\[]|\$\$|\{\{|\{%|%\(|%[sdvqr]\b|%\{|<%|#\{|\\\(|`|\{[\w.]*\}$|@\{|!(?:Ref|Sub)\b")
_ASKED_FOR = re.compile(rb"your|change|insert|replace|enter|put|placeholder|example|dummy|xxx|redacted|(.)\1{5}")
_ENCLOSED = re.compile(rb"[${(](?P<name>\w+)[)}]?")
_CAPITAL_BEHIND = re.compile(rb"(?=.*[a-z].*[0-9][A-Z])[A-Za-z0-9]{8,64}")
# These are words with a number after them: `winter2024x`, `Katze_Minka09`. Versions rarely have two digits in a row.
_WORD_NUMBER = re.compile(rb"(?:[A-Za-z]{3,24}[._-]){0,3}[A-Za-z]{3,24}[._-]?[0-9]{2,8}[A-Za-z!]{0,16}")
# This is a word with a number in it. A program with its version (Python3) or a file's name does not count.
_COINED = re.compile(
    rb"(?![A-Za-z]+[0-9]\Z|[a-z]+_[0-9]\Z|[a-z0-9]+(?:_[a-z0-9]+){2,}\Z|[\w.-]+\.[a-z]{1,4}\Z)(?=[^0-9]*[0-9])[A-Za-z\x80-\xff][\w\x80-\xff!@#$%^&*?+~.-]{4,63}"
)
_LETTERS = rb"(?:[A-Za-z]|[\xc3-\xd4][\x80-\xbf])+"
# This is a word with a sign in it, but not the number of an issue or a standard, a line of a file or an expression.
_SIGNED = re.compile(
    rb"(?![A-Za-z]+#L?[0-9-]+\Z|[^#]*\.[a-z]{2,4}#|[^&]*&&)[^!#?&^*]*[A-Za-z0-9][!#?&^*][\w!#?&^%*$.-]*"
)
# These are words with a capital and a number. Unlike names of classes, they have no capital after the number.
_CAPITALISED = re.compile(
    rb"(?=.[a-z0-9_\xd0-\xd1])(?:[A-Z]|[\xc3-\xd4][\x80-\xbf]|[a-z]{3,16}[_-](?=[A-Z]))(?:" + _LETTERS + rb")?"
    rb"(?:[_.]?[0-9]+(?![A-Z])" + _LETTERS + rb"(?:[_-]" + _LETTERS + rb")*|(?:[_.-]" + _LETTERS + rb")*[_.][0-9]+|"
    rb"(?:[_.-]" + _LETTERS + rb")+[0-9]+)[!?]?|[a-z]{4,16}[0-9]{2,4}[A-Z]"
)  # fmt: skip
_DRAWN = re.compile(rb"(?!0x|.*(?:[a-z]{4}|[A-Z]{4}|\d{4}))(?=.*[A-Z])(?=.*[a-z])(?=.*\d)[A-Za-z0-9]{10,64}")
_NAMED_NUMBER = re.compile(rb"[A-Za-z]+[._-]?[0-9]+")  # `Host_3`, `Users_2`
_CAPITAL = re.compile(rb"[A-Z][^A-Z]|[!#$%^&*?+~]")
_SIGN = re.compile(rb"[!@#$%^&*?+]")
_ALGORITHM = re.compile(
    rb"(?i)(?:argon2|bcrypt|scrypt|pbkdf2|sha[0-9]|md[45]|base[0-9]{2}|utf-?[0-9]|aes-?[0-9]|hmac|rsa-?[0-9]|ed25519|pkcs#?[0-9])"
    rb"[a-z0-9_+-]{0,16}(?:[$]v=[0-9]+)?|[a-z]{0,8}v?[0-9]+(?:\.[0-9]+){1,3}"
)
_HOST = re.compile(
    rb"(?:(?:local)?host(?:name)?|[a-z][a-z-]{0,40}(?:\.[a-z-]{2,40}){1,5}|[0-9]{1,3}(?:\.[0-9]{1,3}){3}):"
    rb"(?:port[0-9]?|[0-9]{2,5})"
)
_PROMPT = re.compile(rb"[A-Za-z\x80-\xff ]{4,40}[:?] ?")
_PATH = re.compile(rb"(?:[A-Za-z]:[\\/]|[~/])")
_PART = re.compile(rb"[-_:/. #]+")
_SHORT_PART = re.compile(rb"[a-z]{1,3}|[A-Z]{1,3}")
_WORD_PART = re.compile(rb"[A-Za-z]{4,24}[0-9]{0,4}")
_NUMBERS = re.compile(rb"v?[0-9]{1,8}|[0-9]{12}")
_VALIDATION = frozenset(list_bytes("words about values"))
_CODE = re.compile(
    rb"(?:await |new |return |not |lambda|function|async |await\b|typeof )"
    rb"|[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)*[(\[]"  # a call, or an item of a container
    rb"|(?:self|this|cls|os|sys|process|import|config|settings|env|args|options|opts|props|req|request|response|ctx)"
    rb"(?:\.|->|\?\.|::|!\.)"
)
_DOTTED = re.compile(rb"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[;,)]*")
# A dotted name with a number is code only if its last part says so, because "Ow1l.night" may be a password.
_NAMED_PART = re.compile(rb"(?i)(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|value|text|url|id)[;,)]*\Z")
_ITEM = re.compile(rb"[A-Za-z_][\w.]*(?:\[[\w.\"', |:]*\][;,)]*|\[[\"'][a-z_]+)")
_DOCUMENTED = frozenset(list_bytes("documented values"))


def is_stand_in(value: bytes) -> bool:
    """Return True if a value is a placeholder: `<your key>`, `${TOKEN}`, `changeme`, or memoryd's own."""
    value = value[:LENGTH_MAX]
    if PLACEHOLDER.match(value) or value.startswith((b"[REDACTED", b"<", b"(", b"[", b"$", b"%{", b"{", b"*")):
        return not _is_odd(value)
    bare = re.sub(rb"[^0-9a-z]+", b"", value.lower())
    if len(bare) < 3 and len(set(value)) < 5:
        return True
    behind = value.rpartition(b"_")[2]
    is_one_letter = len(behind) >= 8 and len(set(behind)) == 1  # as in `phc_0000000000`
    is_uniform = is_one_letter or (len(set(bare)) <= 3 and not _ACCENTED.search(value))
    if is_uniform or _MASKED.search(value) or _FILLED_IN.match(value):
        return True
    found = _STAND_IN.search(value)
    return bool(found) and not _is_meant(value, found[0] if found else b"")


def _is_meant(value: bytes, stand_in: bytes) -> bool:
    # Somebody's secret may follow the words of a placeholder: "changeme-Zk9mQ2vLw7", "changeMe91", "MySecretDog".
    rest = _STAND_IN_WORDS.sub(b"", value)
    if (looks_random(rest) and is_mixed(rest)) or _NUMBERED.fullmatch(value):
        return True
    stand_in = stand_in[1:] if not stand_in[:1].isalpha() else stand_in
    return stand_in[:2].lower() == b"my" and (len(re.findall(rb"[a-zA-Z]", rest)) > 2 or bool(_SIGN.search(rest)))


def _is_odd(value: bytes) -> bool:
    # A random secret may begin with a bracket. Then no name follows the bracket, and nothing closes it.
    if PLACEHOLDER.match(value) or value.startswith((b"[REDACTED", b"<", b"**")) or b"](" in value:
        return False
    inner = _ENCLOSED.fullmatch(value)
    if inner:
        # A random text has both cases and more than a number at its end, so it is not a variable's name.
        name = inner["name"]
        cased = bool(re.search(rb"[a-z]", name)) and bool(re.search(rb"[A-Z]", name)) and b"_" not in name
        return cased and is_mixed(name[:-2]) and looks_random(name)
    if _FILLED_IN.match(value) or value.count(b"\\x") > 1:
        return False
    return not value.rstrip(b",;.").endswith((b")", b"]", b"}")) and looks_random(value)


def is_code(value: bytes) -> bool:
    """Return True if a value without quotes is an expression, such as a call, an item or a dotted name."""
    if _CODE.match(value) or value.endswith((b"()", b"();", b"(", b"{", b"[")):
        return not is_mixed(value) or b"(" in value[:-1] or bool(_ITEM.fullmatch(value))
    is_name = bool(_DOTTED.fullmatch(value)) and (not _DIGIT.search(value) or bool(_NAMED_PART.search(value)))
    return bool(_ITEM.fullmatch(value)) or (is_name and is_wordy(value))


def common_neighbours(value: bytes) -> tuple[int, int]:
    """Return the number of common pairs of neighbouring letters, and of all pairs.

    A change of case ends a word, so a pair never crosses it.
    """
    common = pairs = 0
    for run in _ALPHABETIC.findall(value):
        low = run.lower()
        for at in range(len(low) - 1):
            pairs += 1
            common += low[at : at + 2] in _BIGRAMS
    return common, pairs


def is_wordy(value: bytes) -> bool:
    """Return True if a value reads as words, perhaps with a few digits."""
    digits = len(_DIGIT.findall(value))
    letters = len(_LETTER.findall(value))
    if digits > 4 and digits * 4 > letters:
        return False
    common, pairs = common_neighbours(value)
    if pairs < 3:
        return digits <= 2 and letters + digits < 8 and len(value) <= letters + digits + 1
    return common >= 0.72 * pairs and len(_SWITCH.findall(value)) <= 1 + len(value) // 6


def is_mixed(value: bytes) -> bool:
    """Return True if a value has both letters and digits."""
    return bool(_DIGIT.search(value)) and bool(_LETTER.search(value))


def looks_random(value: bytes) -> bool:
    """Return True if a value of at least eight characters looks random."""
    if len(value) < 8:
        return False
    value = value[:LENGTH_MAX]
    if is_mixed(value):
        return not is_wordy(value)
    common, pairs = common_neighbours(value)
    if pairs >= 6 and common < 0.6 * pairs:
        return True
    return len(re.findall(rb"[a-z](?=[A-Z])", value)) * 4 >= len(value)


def is_hash(value: bytes) -> bool:
    """Return True if a value has the form of an id: hexadecimal, a UUID or a marked hash."""
    return bool(_HEXADECIMAL.fullmatch(value) or _UUID.fullmatch(value) or _HASH.match(value))


def is_made_of_words(value: bytes) -> bool:
    """Return True if a value is made of words and numbers with marks between them: `user:12345:profile:v2`."""
    parts = [part for part in _PART.split(value) if part]
    if len(parts) < 2:
        return False
    numbers = [bool(_NUMBERS.fullmatch(part)) for part in parts]
    words = [
        bool(_SHORT_PART.fullmatch(part) or (_WORD_PART.fullmatch(part) and is_wordy(part.rstrip(b"0123456789"))))
        for part in parts
    ]
    named = sum(len(part) for part, word in zip(parts, words, strict=True) if word and len(part) > 3)
    return all(number or word for number, word in zip(numbers, words, strict=True)) and named * 4 >= len(value)


def is_phrase(value: bytes) -> bool:
    """Return True if a value is a passphrase: four to eight words that are no sentence about passwords."""
    words = value.split(b" ")
    return 4 <= len(words) <= 8 and all(
        re.fullmatch(rb"[a-z]{3,12}", word) and word not in _VALIDATION for word in words
    )


def is_path(value: bytes) -> bool:
    """Return True if a value begins like a path: with a drive, `~` or `/`."""
    return bool(_PATH.match(value))


def is_password(value: bytes, *, quoted: bool, meant: bool = False) -> bool:
    """Return True if a value in a password's place is a password.

    Without quotes, it must not read as a word or as code. `meant` says that it is set for a program; then it may also
    look like a name.
    """
    value = value[:LENGTH_MAX]
    is_rule = value.lower().partition(b"|")[0] in _DOCUMENTED  # also `required|min:8`
    if is_rule or len(value) < 4 or is_stand_in(value) or _ALGORITHM.fullmatch(value):
        return False
    # The rest of a URL after `https:`, or a sentence.
    if value.startswith(b"//") or _IDEOGRAPHS.search(value):
        return False
    if (not quoted and is_code(value)) or _PROMPT.fullmatch(value) or _HOST.fullmatch(value):
        return False
    if b" " in value:
        if quoted and is_phrase(value):
            return True
        # A sentence about passwords has at least one of the words in `_VALIDATION`.
        is_plain = not (meant and quoted and not _VALIDATION.intersection(value.lower().split()))
        return value.count(b" ") <= 4 and bool(_DIGIT.search(value)) and not (is_plain and is_wordy(value))
    if meant and len(value) >= 6 and value.isalnum():
        return True
    if _DIGIT.search(value):
        return len(value) >= 5 and not (not quoted and is_wordy(value) and b"_" in value)
    if re.fullmatch(rb"[A-Za-z_.\-\x80-\xff]+", value):
        if quoted:
            return looks_random(value) or (len(value) >= 6 and value.islower() and not re.search(rb"[_.-]", value))
        return looks_random(value)
    return len(value) >= 6 and (quoted or not re.fullmatch(rb"[\w.:/\\-]+", value))


def is_odd_password(value: bytes, *, quoted: bool) -> bool:
    """Return True if a value looks like a password even after a vague word.

    It must look random or have signs in it.
    """
    if len(value) < 6 or value.isdigit() or is_path(value) or is_made_of_words(value):
        return False
    is_odd = looks_random(value) or (_SIGN.search(value[1:]) and not re.search(rb"[()=<>{}\[\]/]", value))
    return is_mixed(value) and bool(is_odd) and is_password(value, quoted=quoted)


def is_made_up(value: bytes, *, quoted: bool = False) -> bool:
    """Return True if a value next to a word for a password is a password: `winter2024x`, `R4ven_nest`.

    A value without a capital, a sign or a number at its end counts only in quotes: `barnacle4ever`.
    """
    value = value[:LENGTH_MAX]
    if is_odd_password(value, quoted=quoted) or _CAPITAL_BEHIND.fullmatch(value):
        return True
    is_shaped = _COINED.fullmatch(value) if quoted or _CAPITAL.search(value) else _WORD_NUMBER.fullmatch(value)
    return bool(is_shaped) and is_password(value, quoted=True)


def is_coined(value: bytes, *, quoted: bool = False) -> bool:
    """Return True if a value is made up, and is not one word with a number, which may be the name of a host."""
    return is_made_up(value, quoted=quoted) and not _NAMED_NUMBER.fullmatch(value)


def is_drawn(value: bytes, *, fewest: int = 12) -> bool:
    """Return True if a value mixes both cases and digits like no name does: `Kt5Wm8Zb2Qx7`."""
    common, pairs = common_neighbours(value)
    is_shaped = len(value) >= fewest and bool(_DRAWN.fullmatch(value))
    return is_shaped and common <= 0.5 * pairs and len(_SWITCH.findall(value)) * 3 >= len(value)


def is_outstanding(value: bytes, *, is_sure: bool) -> bool:
    """Return True if a value looks like a password and unlike other text: `Otter5creek`.

    With `is_sure`, the context shows a password. Then the value may also be one word and a number: `Ladin_83`.
    """
    is_shaped = bool(_SIGNED.fullmatch(value) or _CAPITALISED.fullmatch(value)) and is_mixed(value)
    return is_shaped and (is_sure or not _NAMED_NUMBER.fullmatch(value)) and is_password(value, quoted=True)


def is_written(value: bytes) -> bool:
    """Return True if a value without quotes is a password in a setting or a flag, where no variables occur."""
    return value.isascii() and is_mixed(value) and not is_code(value) and is_password(value, quoted=True)


def is_number(value: bytes, *, quoted: bool) -> bool:
    """Return True if a value is the PIN of a card or the code of a lock."""
    return value.isdigit() and 4 <= len(value) <= (12 if quoted else 8) and len(set(value)) > 2


_WORD_ENDS = list_bytes("ends of long words")


def is_word(value: bytes) -> bool:
    """Return True if a value is longer than a word and does not end like one: `correcthorsebattery`."""
    return bool(re.fullmatch(rb"[a-z]{15,64}", value)) and not value.endswith(_WORD_ENDS) and not is_stand_in(value)


def is_given(value: bytes) -> bool:
    """Return True if a program's password argument is a password, rather than its name, variable or file."""
    if len(value) < 4 or is_stand_in(value) or value.lower() in _DOCUMENTED:
        return False
    return not value.startswith((b"-", b"env:", b"file:", b"fd:", b"stdin", b"@"))


def _is_place_or_prose(value: bytes) -> bool:
    """Return True if a value is a path, an address or prose.

    Text that is not ASCII also counts, because services make their tokens in ASCII.
    """
    if not value.isascii() or value.count(b" ") > 2:
        return True
    return value.startswith((b"/", b"./", b"../", b"~/", b"http://", b"https://", b"@/", b"arn:"))


def is_token(value: bytes, *, quoted: bool) -> bool:
    """Return True if a value in the place of a token or secret of a service is one."""
    value = value[:LENGTH_MAX]
    if len(value) < 8 or is_stand_in(value) or value.lower() in _DOCUMENTED or _HASH.match(value):
        return False
    if not quoted and is_code(value):
        return False
    if value.isdigit():
        return len(value) >= 12
    if _is_place_or_prose(value):
        return False
    words = sum(len(word) > 2 and is_wordy(word) for word in value.split()) if b" " in value else 0
    return looks_random(value) and not is_made_of_words(value) and words * 2 <= value.count(b" ")


def is_chosen(value: bytes) -> bool:
    """Return True if a person made up a value that signs or encrypts: `mysupersecretjwtkey123`."""
    shaped = re.fullmatch(rb"[a-z0-9]{14,64}", value) or (_WORD_NUMBER.fullmatch(value) and len(value) >= 10)
    return bool(shaped) and not _ASKED_FOR.search(value) and value not in _DOCUMENTED


def is_key(value: bytes, *, quoted: bool) -> bool:
    """Return True if a value after a vague word such as "key", "auth" or "session" is a secret."""
    return len(value) >= 16 and not is_hash(value) and is_token(value, quoted=quoted) and is_mixed(value)
