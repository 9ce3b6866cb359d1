"""Whether a value looks like a secret, or like a word, a name, a piece of code or somebody's "your key here".

Everything here is a judgement on one value of bounded length, in the order of how sure the context was: a password may
be anything that is no word of documentation, a token must not read as words, and what merely stands behind "key" must
look drawn by lot. The measure of that is how many of the neighbouring letters are neighbours in English too: about
0.95 in words and names, about 0.35 in letters drawn by lot.
"""

from __future__ import annotations

import re

from memoryd.scrub.finding import PLACEHOLDER

LENGTH_MAX = 256  # of a value; a longer one is judged by its beginning

_BIGRAMS = frozenset(
    b"th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro "
    b"ic ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot il tr ly nc et ut ss so "
    b"rs un lo wa ge ie wh ee wi em ad ol rt po we na ul ni ts mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl "
    b"ig tu ev ld ry mp fe bl ab gh ty op wo sa ay ex ke fr oo av ag if ap gr od bo sp rd do uc bu ei ov by rm ep tt "
    b"oc fa ef cu rn sc gi da yo cr cl du ga qu ue ff ba ey ls va um pp ua up lu go ht ru ug ds lt pi rc rr eg au ck "
    b"ew mu br bi pt ak pu ui rg ib tl ny ki rk ys ob mm fu ph og ms ye ud mb ip ub oi rl gu dr cc tw ft wn nu af hu "
    b"nn vo rv nf xp gn sm fl iz ok my gl aw ju oa sy sl ps jo je nk kn dy hy ze ks xt bs ik dd ".split()
)
_ALPHABETIC = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DIGIT = re.compile(rb"[0-9]")
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_SWITCH = re.compile(rb"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])|[a-z](?=[A-Z])")
_HEXADECIMAL = re.compile(rb"(?:0x)?[0-9a-fA-F]+")
_UUID = re.compile(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HASH = re.compile(rb"(?i)(?:sha|md|blake)[0-9]{1,3}[a-z]?[:=_-]|ssh-|ecdsa-sha2|AAAA[BCE]3Nz")
_STAND_IN = re.compile(
    rb"(?i)(?:^|[^a-z])(?:your|my|insert|enter|replace|put|change)(?:[-_ ]?(?:me|this|it|here))?[-_ ]?"
    rb"(?:own|real|actual|secret|super|api|access|auth|github|openai|db|new|old)?[-_ ]?"
    rb"(?:api)?[-_ ]?(?:key|token|secret|password|passwd|pass|value|here)|"
    rb"change[-_ ]?me|place[-_ ]?holder|example(?![a-z])|dummy|redacted|censored|xxxx|\*\*\*|\.\.\.|\xe2\x80\xa6|"
    rb"\xe2\x80\xa2\xe2\x80\xa2|<[^>]*>"
)
_FILLED_IN = re.compile(rb"\$[\w({\[]|\$\$|\{\{|\{%|%\(|%[sdvqr]\b|%\{|<%|#\{|\\\(|`|\{[\w.]*\}$|@\{|!(?:Ref|Sub)\b")
_CODE = re.compile(
    rb"(?:await |new |return |not |lambda|function|async |await\b|typeof )"
    rb"|[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)*[(\[]"  # a call, or an item of something
    rb"|(?:self|this|cls|os|sys|process|import|config|settings|env|args|options|opts|props|req|request|response|ctx)"
    rb"(?:\.|->|\?\.|::|!\.)"
)
_DOTTED = re.compile(rb"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[;,)]*")
_ITEM = re.compile(rb"[A-Za-z_][\w.]*\[[\w.\"', |]*\][;,)]*")
_DOCUMENTED = frozenset(
    b"password passwd passphrase secret token apikey key none null nil true false undefined required optional string "
    b"text hidden invalid incorrect wrong missing empty bearer basic admin root user username postgres mysql test "
    b"testing demo default value plaintext encrypted hashed input label field name type any object number boolean "
    b"unknown varchar char bytes never void foobar foo bar baz hunter pass pwd yes no on off disabled enabled auto "
    b"inherit write read self this private public and the your example".split()
)


def is_stand_in(value: bytes) -> bool:
    """Whether a value only stands where a secret would: `<your key>`, `${TOKEN}`, `changeme`, or our own mark."""
    value = value[:LENGTH_MAX]
    if PLACEHOLDER.match(value) or value.startswith((b"[REDACTED", b"<", b"(", b"[", b"$", b"%{", b"{", b"*")):
        return not _is_odd(value)
    bare = re.sub(rb"[^0-9a-z]+", b"", value.lower())
    if len(bare) < 3 and len(set(value)) < 5:
        return True
    return len(set(bare)) <= 3 or bool(_STAND_IN.search(value)) or bool(_FILLED_IN.match(value))


def _is_odd(value: bytes) -> bool:
    # A bracket may begin a secret by chance; then what follows is no name and is never closed.
    if PLACEHOLDER.match(value) or _FILLED_IN.match(value) or value.startswith((b"[REDACTED", b"<", b"**")):
        return False
    closed = value.rstrip(b",;.").endswith((b")", b"]", b"}"))
    return not closed and looks_random(value)


def is_code(value: bytes) -> bool:
    """Whether a value that stands there without quotes is an expression: a call, an item, a name with dots."""
    if _CODE.match(value) or value.endswith((b"()", b"();", b"(", b"{", b"[")):
        return not is_mixed(value) or b"(" in value[:-1] or bool(_ITEM.fullmatch(value))
    return bool(_ITEM.fullmatch(value)) or (bool(_DOTTED.fullmatch(value)) and is_wordy(value))


def common_neighbours(value: bytes) -> tuple[int, int]:
    """How many pairs of letters that stand together are common, and of how many; a change of case parts words."""
    common = pairs = 0
    for run in _ALPHABETIC.findall(value):
        low = run.lower()
        for at in range(len(low) - 1):
            pairs += 1
            common += low[at : at + 2] in _BIGRAMS
    return common, pairs


def is_wordy(value: bytes) -> bool:
    """Whether a value reads as words, with a number or two among them."""
    digits = len(_DIGIT.findall(value))
    letters = len(_LETTER.findall(value))
    if digits > 4 and digits * 4 > letters:
        return False
    common, pairs = common_neighbours(value)
    if pairs < 3:
        return digits <= 2 and letters + digits < 8 and len(value) <= letters + digits + 1
    return common >= 0.72 * pairs and len(_SWITCH.findall(value)) <= 1 + len(value) // 6


def is_mixed(value: bytes) -> bool:
    """Whether there are both letters and digits."""
    return bool(_DIGIT.search(value)) and bool(_LETTER.search(value))


def looks_random(value: bytes) -> bool:
    """Whether a value of eight characters and more looks drawn by lot."""
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
    """Whether a value has the shape of what programs name things by: hexadecimal, a UUID, or a marked hash."""
    return bool(_HEXADECIMAL.fullmatch(value) or _UUID.fullmatch(value) or _HASH.match(value))


def is_password(value: bytes, *, quoted: bool) -> bool:
    """Whether a value in a password's place is one. Without quotes it must not read as a word or as code."""
    value = value[:LENGTH_MAX]
    if len(value) < 4 or is_stand_in(value) or value.lower() in _DOCUMENTED or value.count(b" ") > 4:
        return False
    if not quoted and is_code(value):
        return False
    if b" " in value:
        return bool(_DIGIT.search(value)) and not is_wordy(value)
    if _DIGIT.search(value):
        return len(value) >= 5 and not (not quoted and is_wordy(value) and b"_" in value)
    if re.fullmatch(rb"[A-Za-z_.\-\x80-\xff]+", value):
        if quoted:
            return looks_random(value) or (len(value) >= 6 and value.islower() and not re.search(rb"[_.-]", value))
        return looks_random(value)
    return len(value) >= 6 and (quoted or not re.fullmatch(rb"[\w.:/\\-]+", value))


def is_token(value: bytes, *, quoted: bool) -> bool:
    """Whether a value in the place of a token, a secret or a key to some service is one."""
    value = value[:LENGTH_MAX]
    if len(value) < 8 or is_stand_in(value) or value.lower() in _DOCUMENTED or _HASH.match(value):
        return False
    if not quoted and is_code(value):
        return False
    if value.isdigit():
        return len(value) >= 12
    if value.count(b" ") > 2 or value.startswith((b"/", b"./", b"../", b"~/", b"http://", b"https://", b"@/")):
        return False
    return looks_random(value) and not _has_words_between_spaces(value)


def _has_words_between_spaces(value: bytes) -> bool:
    return b" " in value and sum(len(word) > 2 and is_wordy(word) for word in value.split()) * 2 > value.count(b" ")


def is_key(value: bytes, *, quoted: bool) -> bool:
    """Whether a value behind nothing more than "key", "auth" or "session" is a secret all the same."""
    return len(value) >= 16 and not is_hash(value) and is_token(value, quoted=quoted) and is_mixed(value)
