"""Passwords that only the head of their column gives away, arguments of a login, what is encoded twice; and none."""

from __future__ import annotations

import base64

import pytest

from memoryd.scrub.policy import Policy
from memoryd.scrub.scan import scan

DRAWN = "Zk9#mQ2!vL"
OTHER = "hunter22"
KEY = "Zk9mQ2vLw7aaBBcc11ddQ8x"


def redacted(text: str) -> str:
    return scan([text], Policy(), lambda _buffer: [])[0].text


@pytest.mark.parametrize(
    "text",
    [
        "name,password,mail\nbob,{0},b@x.example\nann,{1},a@x.example\n", "name;Passwort\r\nbob;{0}\r\nann;{1}\r\n",
        "user\tpassword\nbob\t{0}\nann\t{1}", '"name","db password"\n"bob, the first","{0}"\n"ann","{1}"\n',
        "| User | Password |\n|------|:--------:|\n| bob | `{0}` |\n| ann | {1} |\n",
        "User | Password\n--- | ---\nbob | {0}\nann | {1}\n",
        "|a\\|b|Password|\n|---|:-:|\n|bob|{0}|\n| x\\|y | {1} |\n",
        "┌─────┬──────┐\n│ who │ password │\n├─────┼──────┤\n│ bob │ {0} │\n│ ann │ {1} │\n└─────┴──────┘\n",
        "┏━━━━━┳━━━━━━┓\n┃ who ┃ Password ┃\n┡━━━━━╇━━━━━━┩\n│ bob │ {0} │\n├─────┼──────┤\n│ ann │ {1} │\n",
        " who │ password\n─────┼──────────\n bob │ {0}\n ann │ {1}\n", "│ password │ {0} │\n│ password │ {1} │\n",
        "name,password\nx,my-password1\nbob,{0}\nann,{1}\n",
        *(f"| {head} |\n|---|---|\n| bob | {{0}} |\n| ann | {{1}} |\n"
          for head in ("login | mot de passe", "usuario | Contraseña", "Логин | Пароль", "用户 | 密码")),
        "name,password,pwd\nbob,{0},{1}\n", "INSERT INTO users (name, password) VALUES ('bob', '{0}'), ('ann', '{1}');",
        "insert into `u` (`id`, `pwd`, `at`)\nvalues (1, '{0}', now()),\n(2, '{1}', now())",
        'login("bob", "{0}")\nlogin("ann", "{1}")', "s.authenticate('bob','{0}'); await signIn(\"ann\", \"{1}\")",
        "token row\n" * 30 + "a,password\n" + "token-x,token-y\n" * 30 + "bob,{0}\nann,{1}\n",
    ],
)  # fmt: skip
def test_a_password_below_its_head_is_taken_out_of_each_row(text: str) -> None:
    left = redacted(text.format(DRAWN, OTHER))
    assert DRAWN not in left
    assert OTHER not in left
    assert redacted(left) == left


def test_a_password_with_an_escaped_bar_is_taken_out() -> None:
    table = "| name | password |\n|---|---|\n| bob | {} |\n"
    assert redacted(table.format(r"hun\|ter22")) == table.format("[REDACTED:column-value]")


@pytest.mark.parametrize(
    ("cell", "left"),
    [
        ('"Zk9#m""Q2!vL"', "[REDACTED:column-value]"), ('"Zk9#m"Q2!vL', "[REDACTED:column-value]"),
        ('"Zk9#mQ2!vL"""', '"[REDACTED:column-value]"""'),
    ],
)  # fmt: skip
def test_a_password_with_a_quote_in_it_is_taken_out(cell: str, left: str) -> None:
    head = 'user,password,mail\n"bob, ""x""",'
    assert redacted(f"{head}{cell},b@x.example\n") == f"{head}{left},b@x.example\n"


def test_the_other_columns_stay() -> None:
    left = redacted(f"name,password,mail\nbob,{DRAWN},b@x.example\nann,none,a@x.example\n")
    assert left == "name,password,mail\nbob,[REDACTED:column-value],b@x.example\nann,none,a@x.example\n"


def test_many_rows_below_a_head_are_no_nest_of_names() -> None:
    rows = "token-x,token-y\n" * 30
    assert redacted(f"a,password\n{rows}bob,{DRAWN}\n") == f"a,password\n{rows}bob,[REDACTED:column-value]\n"


@pytest.mark.parametrize("text", ["user,api key\nbob,{}\n", "INSERT INTO t (a, access_token) VALUES (1, '{}')"])
def test_a_token_below_its_head_is_taken_out(text: str) -> None:
    assert KEY not in redacted(text.format(KEY))


@pytest.mark.parametrize(
    "text",
    [
        "| Key | Token count |\n|---|---|\n| alpha1234x | 1200 |\n", "option,key\nfoo-bar-2,ctrl+k2\n",
        "field,password\nkind,required\nlength,8\n", "def f(user, password,\n      host, port8080x,\n",
        "    'TF2_password',\n    'TF2_Players',\n", "call(bar, password,\n     baz1xyz, qux2yza,\n)",
        "| password |\n|---|\n| abc123xyz |\n", 'login("username", "password")', "login('host:port', 'dashboard')",
        "name,password\n\nthen came b1ob,x2yzzy\n", "INSERT INTO t (password, n) VALUES (?, ?), (:password, now())",
        'f(password or "")(x, "")', "['user', 'password', 'host:port1']", "'password', 'host:5432'",
        '"password": "localhost:8080"',
        'return f(password or "")(request.args)', "password = password1 if a else password2",
    ],
)  # fmt: skip
def test_what_is_no_secret_below_a_head_or_in_a_call_stays(text: str) -> None:
    assert redacted(text) == text


def encoded(text: str, how: str) -> str:
    if how == "base64":
        return base64.b64encode(text.encode()).decode()
    return "".join(f"%{byte:02X}" for byte in text.encode())


@pytest.mark.parametrize("first", ["base64", "percent"])
@pytest.mark.parametrize("second", ["base64", "percent"])
def test_two_layers_of_encoding_are_looked_through(first: str, second: str) -> None:
    hidden = encoded(encoded(f"password={KEY}\n", first), second)
    left = redacted(f"see {hidden} there")
    assert hidden[-24:-8] not in left
    assert left.startswith("see ")
    assert left.endswith(" there")
