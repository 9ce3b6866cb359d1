"""Lines as people write them: what is a secret in them is taken out, and nothing else is."""

import tempfile
from functools import cache
from pathlib import Path

from natural_lines import harmless_lines, lines_with_secrets

from memoryd.scrub.policy import Policy
from memoryd.scrub.scan import scan
from memoryd.worker.scanner import KnownFormats, cache_folder

# Written before the rules were; every second one was set aside while they were made. These remain.
MISSED = (
    "Here are the keys:",
    "the secret key below\n\n",
    "user: admin, pass ",
    "mot de passe root ",
    "net use Z: \\\nas",
)
TAKEN = ("the commit key is ", "REDIS_PASSWORD=${REDIS_PASSWORD:?missing}")


@cache
def library():
    return KnownFormats(cache_folder(Path(tempfile.gettempdir())))


def left_of(texts):
    return [one.text for one in scan(texts, Policy(), library().find)]


def is_left(secret, text):
    """Whether a secret is still there, or a part of it that tells it."""
    part = secret[len(secret) // 2 :] if len(secret) >= 16 else secret
    return part in text or any(secret[at : at + 6] in text for at in range(len(secret) - 5) if len(secret) < 16)


def test_secrets_that_people_tell_in_their_own_words_are_taken_out():
    told = list(lines_with_secrets())
    left = [text for (text, secret), after in zip(told, left_of([one[0] for one in told]), strict=True)
            if is_left(secret, after)]  # fmt: skip
    assert [text for text in left if not text.startswith(MISSED)] == []
    assert len(left) <= len(MISSED) < len(told) / 30


def test_lines_that_only_speak_of_secrets_stay_as_they_are():
    lines = list(harmless_lines())
    changed = [line for line, after in zip(lines, left_of(lines), strict=True) if after != line]
    assert [line for line in changed if not line.startswith(TAKEN)] == []
    assert len(changed) <= len(TAKEN) < len(lines) / 30


def test_the_password_behind_the_user_of_a_share_is_taken_out_and_not_the_user():
    (after,) = left_of([r"net use Z: \\nas\share /user:mara Bl1zzard9!"])
    assert ("mara" in after, "Bl1zzard9" in after) == (True, False)


def test_a_password_that_reads_like_a_name_with_dots_and_a_number_is_taken_out_and_code_is_not():
    told = ["password: Ow1l.night", "passwort: Regen.bogen7", "mot de passe : soleil.bleu8"]
    assert [one.rpartition(" ")[2] in after for one, after in zip(told, left_of(told), strict=True)] == [False] * 3
    code = ["password: form1.field2.value", "password = form.password.value", "password: base64.password"]
    assert left_of(code) == code


def test_the_number_of_a_lock_and_a_quoted_passphrase_are_taken_out_and_other_numbers_are_not():
    told = [
        "the pin is 809377", "door code 4471#", "the alarm code is 9912", "gate code: 20481",
        'passphrase for the ssh key is "blue monday 1983"', "TOTP seed JBSWY3DPEHPK3PXP",
        "log in as admin with Kestrel55!",
    ]  # fmt: skip
    secrets = ["809377", "4471", "9912", "20481", "blue monday", "JBSWY3DPEHPK3PXP", "Kestrel55"]
    assert [secret in after for secret, after in zip(secrets, left_of(told), strict=True)] == [False] * len(told)
    harmless = [
        "the exit code is 4471", "error code: 20481", "the spin is 80937", "the pin is 13",
        "we log in as admin with sudo",
        "the passphrase is read from the terminal", "the entry code is in gate.py", "code 200 4471",
    ]  # fmt: skip
    assert left_of(harmless) == harmless


def test_passwords_behind_joined_flags_prompts_and_fields_are_taken_out():
    told = [
        "curl -fsSLu ci:Zk39xqLamp https://x", "redis-cli AUTH Zk39xqLamp", "rabbitmqctl add_user ben Zk39xqLamp",
        "Enter passphrase for key '/b/.ssh/id': Zk39xqLamp", "Password for 'https://ben@host': Zk39xqLamp",
        "page.getByLabel('Password').fill('Zk39xqLamp')", "WIFI:S:net;T:WPA;P:Zk39xqLamp;;",
    ]  # fmt: skip
    assert ["Zk39xqLamp" in after for after in left_of(told)] == [False] * len(told)
    harmless = ["curl -su ci https://x", "redis-cli --stat", "Password for 'https://ben@host': ", "wifi: P is missing"]
    assert left_of(harmless) == harmless


def test_short_tokens_behind_dots_and_attached_flags_are_taken_out():
    told = {
        "API KEY..........:  zk29Fh3Lq0Pw8": "zk29Fh3Lq0Pw8",
        "Access token ____ Hk3jd9fLq2mZ7": "Hk3jd9fLq2mZ7",
        "Client secret ...... 8jKd93kLsM2n": "8jKd93kLsM2n",
        "Private Key .... 9fK2mLq8ZtXvB3": "9fK2mLq8ZtXvB3",
        "ldapmodify -x -D cn=m -wTeich3rose -f a.ldif": "Teich3rose",
        "**Q:** root password of the NAS?\n**A:** Dach7boden": "Dach7boden",
        "sudo password? it's Bergwerk8.": "Bergwerk8",
    }
    assert [text for text, secret in zip(left_of(told), told.values(), strict=True) if secret in text] == []
    harmless = [
        "Chapter 4: Access tokens ........ 112",
        "The secret ......... nobody-knows-it",
        "secret? It's complicated.",
    ]
    assert left_of(harmless) == harmless


def test_near_variants_of_known_kinds_are_taken_out():
    told = {
        "fyi her pass's Mondkalb_19, don't lose it": "Mondkalb_19",
        "open the printer page (admin, Ruebe9!saft)": "Ruebe9!saft",
        "smbclient -L nas -U 'paul%drei kleine Enten'": "drei kleine Enten",
        'SECRET_KEY = "django-insecure-" + "q8#vN2x&Lk7wZr4(Tb9mYc3pHd6sJf1gXa5u"': "q8#vN2x&Lk7wZr4",
        'wpa-psk "im garten 4 zwerge"': "zwerge",
        "wallet key\n5102fc071a869584742b52bccdb8f927210947294645e7fc55a098f7eb4df170": "5102fc071a869584",
        "api key below\n```\n5ed7d3445559931f3d47ac08a670a1ec\n```": "5ed7d3445559931f",
        "12 words:\n1. ribbon\n2. lunar\n3. cactus\n4. orbit\n5. velvet\n6. maple\n"
        "7. hollow\n8. tundra\n9. pepper\n10. walnut\n11. glide\n12. fossil": "walnut",
        "seed phrase: ribbon, lynx, elm, orbit, velvet, maple, hollow, tuna, pepper, wall, ice, fossil": "pepper",
        "7z a -p'my Pass 12' out.7z folder": "my Pass 12",
        "keytool -list -keystore r.jks -storepass changeMe91": "changeMe91",
        "ALTER LOGIN sa WITH PASSWORD = N'Goldenrod_6';": "Goldenrod_6",
    }
    assert [text for text, after in zip(told, left_of(list(told)), strict=True) if told[text] in after] == []


def test_lookalikes_of_these_variants_stay_as_they_are():
    harmless = [
        "the second pass's Step_12 is slow",
        "the optimizer pass's Inliner_22, then codegen",
        "assign(user, Value9x)", "insert (user, Order_2024)", "pair (root, Node_7)", "range (root, 50%off2)",
        "The seed scripts fill tables users, orders, items, teams, groups, roles, plans, prices, logs, events, jobs, x",
        "the seed step does:\nadd\nload\ntag\nsort\njoin\ntrim\ntest\npack\nship\nrest\nlog\nend",
        "12 words: that is the limit for a commit subject.",
        'psk: "the key of your network, 8 to 63 characters"', "wpa-psk is the usual key management",
        'key = "django-insecure-" + get_random_secret_key()',
        "See the token below\n/etc/memoryd/config-2024.yaml", "wallet key type: secp256k1",
        "password = change_me_12", "password: changeme123", "smbclient -U 'paul' //nas/share -c 'ls docs'",
        "Das Passwort auf prod-server01 ist abgelaufen.",
    ]  # fmt: skip
    assert [line for line, after in zip(harmless, left_of(harmless), strict=True) if line != after] == []
