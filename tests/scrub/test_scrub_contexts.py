"""Where commands, statements, files and sentences carry a password; and what stands in such places and is none."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from memoryd.scrub.policy import Policy
from memoryd.scrub.scan import scan

DRAWN = "Zk9#mQ2!vL"
KEY = "Zk9mQ2vLw7aaBBcc11ddQ8x"


def redacted(text: str) -> str:
    return scan([text], Policy(), lambda _buffer: [])[0].text


@pytest.mark.parametrize(
    "text",
    [
        "DB_PASS={}", "MYSQL_PASS={}", "smtp_pass: {}", "ansible_ssh_pass={}", "pass: {}", "pw: {}", "ADMIN_PW={}",
        "CREATE USER bob WITH PASSWORD '{}'", "CREATE USER 'b'@'%' IDENTIFIED BY '{}';", "ALTER ROLE b PASSWORD '{}'",
        "mysql -u root -p{} shop", "mysql -p'{}'", "sshpass -p {} ssh root@h", "docker login -u b -p {} r.example",
        "redis-cli -h x -a {} ping", "curl -uadmin:{} http://x", "htpasswd -b .htpasswd bob {}",
        "htpasswd -nbB bob {}", "echo 'root:{}' | chpasswd", "openssl enc -pass pass:{} -in x",
        "echo {} | docker login --password-stdin -u b", "curl -X POST \\\n  https://x \\\n  -u admin:{}",
        "machine api.example\n  login bob\n  password {}\n", "db.example.com:5432:shop:admin:{}",
        'variable "db_password" {{\n  default = "{}"\n}}', 'getenv("DB_PASSWORD") or "{}"',
        "get(u, auth=('bob', '{}'))",
        "HTTPBasicAuth('bob', '{}')", "jdbc:oracle:thin:scott/{}@//h:1521/x", "use password {} to log in",
        "log in as admin with password {}", "Password:\n{}", "password     {}\n", "password\t{}",
        "{{&quot;password&quot;: &#34;{}&#34;}}", "&lt;password&gt;{}&lt;/password&gt;",
    ],
)  # fmt: skip
def test_a_password_in_its_place_is_taken_out(text: str) -> None:
    assert DRAWN not in redacted(text.format(DRAWN))


@pytest.mark.parametrize(
    "text",
    ["admin password {} by Ben", "user root / {}", "login: root / {}", "use pass {} for the vpn", "the wifi pass is {}",
     "with user ann and pw {}"],
)  # fmt: skip
@pytest.mark.parametrize("secret", ["Xy7!kk2", "hunter22X"])
def test_a_password_that_is_told_in_few_words_is_taken_out(text: str, secret: str) -> None:
    assert secret not in redacted(text.format(secret))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("gpg --batch --passphrase {} --decrypt x.gpg", "amberfield"),
        ("gpg --passphrase '{}' -c x", "river otter lamp"),
        ('run(["gpg", "--passphrase", "{}", "-d", path])', "marigoldhill"),
        ("gpg2 --passphrase={} --sign x", "velvetmoon"),
        ("basicAuth: admin:{}", "hunter22go"),
        ('"basicAuth": "reports:{}"', "t9Gz-wolke"),
        ("basic-auth: u:{}", "Kiln_b88"),
        ('basicAuthorization = "Basic {}"', "dXNlcjpoVW50ZXIyMmdv"),
        ('basicAuthorization: "{}"', "Xk9mQ2vLw7Rt4Bz8"),
        ("basic_authorization: {}", "Xk9mQ2vLw7Rt4Bz8"),
        ("Basic Authorization: {}", "Xk9mQ2vLw7Rt4Bz8"),
        ("proxy-basic-authorization: Basic {}", "dXNlcjpoVW50ZXIyMmdv"),
        ('basicAuthenticate("bob", "{}")', "hunter22go"),
        ('requests.get(u, basic_auth=("bob","{}"))', "hunter22go"),
        ('basicAuth=("bob", "{}")', "hunter22go"),
        ("basic_auth_pass {}", "hunter22go"),
        ('basicAuth = "bob:{}"', "hunter22go"),
        ('BASIC_AUTH="bob:{}"', "hunter22go"),
        ("basic auth for the site is bob / {}", "hunter22go"),
        ('"login": "bob:{}"', "hunter22go"),
        ('"creds": "root / {}"', "hunter22go"),
        ("the wifi code is {}", "Sunflower88"),
        ("le code wifi c'est {}", "Tournesol44"),
        ("wi-fi code: {}", "Lachs-7-Teich"),
        ("the wifi code is {}", "48291047"),
        ("the wifi code is {}", "7hT9kLm2Xq"),
        ("the wifi code is {}", "AB12CD34EF"),
        ("wifi code: {}", "XK7mQ2vL9p"),
        ("wlan-code: {}", "58372910463728190456"),
        ("login: env:{}", "Vq7xK2mPz9"),
        ("login: header:{}", "Vq7xK2mPz9"),
        ("creds: env: {}", "hunter22go"),
        ("I'm logging in with bob / {}", "winter2024x"),
        ("sign in with staging / {}", "Quince#42"),
        ("pass\u2066word: {}", "Amsel44nest"),
        ("password\u061c is Am\u115fsel44nest{}", "sel44nest"),
        ("| name | pw |\n|---|---|\n| bob | {} |\n", "Kranich-9!"),
        ("user,PW\nanna,{}\n", "Lerche2024x"),
        ("pw:\n{}\n", "Reiher88dach"),
        ("| role | PW |\n|---|---|\n| admin | {} |\n", "Admin123!"),
        ("user,pw\nanna,{}\n", "TIGER2024!"),
    ],
)
def test_a_password_that_people_give_in_passing_is_taken_out(text: str, secret: str) -> None:
    assert secret not in redacted(text.format(secret))


@pytest.mark.parametrize(
    "text",
    [
        "gpg --passphrase-file pass.txt -d x",
        "gpg --passphrase needs --pinentry-mode",
        "gpg --passphrase PASSPHRASE --batch",
        'run(["gpg", "--passphrase", passphrase, "-d", path])',
        "gpg --passphrase requires --batch",
        "gpg --passphrase supported --batch",
        "gpg --passphrase parameter --batch",
        "gpg --passphrase argument -d",
        "basicAuth: user:password",
        "basic_auth: localhost:8080",
        "basicAuth: env:BASIC_AUTH_V2",
        '"login": "octocat123"',
        '{"user": {"login": "JaneDoe1990"}}',
        '"login":"mary.smith99"',
        '"login": "bob-dev42"',
        '"login": "octocat/repo123"',
        '"login": "auth/login_v2.html"',
        "the wifi code is 802.11ac",
        "basicAuth: 'header:X_AUTH_V2'",
        "the wifi code is WPA2",
        "the wifi code is 4829104",
        "the wifi code is RTL8812AU",
        "the wifi code is 5GHz-only",
        "the wifi code is ESP32-specific",
        "le code wifi c'est dans wifi2.c",
        "sign in with GitHub / OAuth2.0",
        "log in with Firefox / Chrome120",
        "logging in with ssh / port2222",
        "| laser | pw |\n|---|---|\n| x | 12ns |\n",
        "x,pw,y\nfoo1,bar2,baz3\n",
        "a | pw\n--|--\nb | varchar(20)\n",
        "Enter password:\nroot@host1:~#",
        "pw:\nutf8",
        "Passwort Base64Encoder",
        "Kennwort Windows11Rechner",
        "Passwort OAuth2 entfällt",
        "Password Level15Admin",
        "Passwort Schritt12Anleitung",
        "the password Chapter12Intro",
        "password Oauth20Provider",
        "password Argon22Hash",
        "| part | pw |\n|---|---|\n| bolt | PR-1234 |\n",
        "part,pw\nbolt,KW48-2024\n",
    ],
)
def test_what_only_looks_like_such_a_password_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text",
    ["all tests pass python3.11", "use pass by reference", "user alice / bob@example.com", "with pass 2 of 3",
     "user agents / v1.2.3", "use password hashing bcrypt2", "root password policy v2.1", "paths: src / Xy7!kk2"],
)  # fmt: skip
def test_words_about_passwords_and_users_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "setx API_KEY {}", "set -gx API_KEY {}", "gh secret set X --body {}", "curl -b 'session={}' http://x",
        "const k = process.env.API_KEY ?? '{}'", "https://x.example/c?sv=2020-08-04&sig={}abcdefG1&se=2026",
    ],
)  # fmt: skip
def test_a_key_in_its_place_is_taken_out(text: str) -> None:
    assert KEY not in redacted(text.format(KEY))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("DB_PASSWORD=MySecretDog", "MySecretDog"), ("mysql://root:MySecretDog@db", "MySecretDog"),
        ('{"password":"my-password1!"}', "my-password1!"), ('{"password":"changeme-Zk9mQ2vLw7"}', "Zk9mQ2vLw7"),
        ('{"password":"Zk9mQ2example-vLw7"}', "Zk9mQ2"), ("DB_PASSWORD=$ecretZk9mQ2", "ecretZk9mQ2"),
        ("DB_PASSWORD={Zk9mQ2vLw7}", "Zk9mQ2vLw7"), ("DB_PASSWORD=(Zk9mQ2vLw7)", "Zk9mQ2vLw7"),
        ("JWT_SECRET=mysupersecretjwtkey123", "jwtkey123"), ("SECRET_KEY=thisismysecretkey", "thisismy"),
        ('{"password":"correct horse battery staple"}', "horse"), ("PIN: 483920", "483920"),
        ("the password is 48392017", "48392017"), ("the password is correcthorsebattery", "correcthorse"),
    ],
)  # fmt: skip
def test_what_a_person_makes_up_is_no_stand_in(text: str, secret: str) -> None:
    assert secret not in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "PWD=/home/bob/work/shop", "OLDPWD=/srv", '"PWD": "/home/bob/shop2"', 'key = "customer_id_v2_2024_hash"',
        '"key": "user:12345:profile:v2"', "key: arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567",
        '"S3_BUCKET_KEY": "uploads/2024/11/22/file_0001.png"', 'STORAGE_KEY = "myapp_user_prefs_v3_2024"',
        "password: argon2id", "password is base64encoded", "read.password('Password:', x)",
        'dsn="localhost:1521/freepdb1"', "Cookie: consent=accepted_all_2024_version2; lang=de-DE",
        "<SignatureValue>qX7bLp92mZqX7bLp92mZ</SignatureValue>", "bypass: true1", "PASS: test_token_refresh_v2 (0.34s)",
        "password: ${DB_PASSWORD}", "API_KEY=your-api-key-here", "it is also identified as windows-1255.",
        "docker run --name mysql -p3306:3306", "git checkout -b feature=one", "render_pass: shadow1",
        "the password is case-insensitive", 'password: "must contain eight characters"',
    ],
)  # fmt: skip
def test_what_stands_there_and_is_none_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize("quote", ["'", '"', "`"])
@pytest.mark.parametrize("name", ["password", "SECRET_KEY", "OPENAI_API_KEY"])
def test_a_secret_of_a_subscript_goes_whatever_its_quotes(name: str, quote: str) -> None:
    assert KEY not in redacted(f"app.config[{quote}{name}{quote}] = {quote}{KEY}{quote}")
    plain = f"check(app.config[{quote}{name}{quote}])"
    assert redacted(plain) == plain


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('echo "{}" | sudo -S apt update', "Sud1!pw999"),
        ('printf "{}\\n" | sudo -S ls', "Sud5!pw999"),
        ('echo "bob:{}" | chpasswd', "Sude!pw999"),
        ('#define WIFI_PASS "{}"', "Esp!wifi97"),
        ('WiFi.begin("home", "{}");', "Esp!wifi98"),
        ('ssh-keygen -t ed25519 -N "{}" -f k', "Sshk!pass9"),
        ('ConvertTo-SecureString "{}" -AsPlainText -Force', "P0wer!sh99"),
        ("db.example.com:5432:shop:app:{}", "pgp4ss!Xy7"),
        ("encryption_key: {}\n", "e16d4f6185578715bbd26944ff770e4b"),
        ("2FA backup codes:\n{}\n4821-8831", "1293-4471"),
        ("user,password\nbob,{}", "Csv!pw9999"),
        ("recovery phrase:\n{}", "army van defense carry jealous true garbage claim echo media make crunch"),
    ],
)
def test_a_secret_in_the_json_of_a_tool_call_goes_and_the_json_stays_whole(text: str, secret: str) -> None:
    call = json.dumps({"command": f"cd x\n{text.format(secret)}", "description": 'Say "ü"'}, ensure_ascii=False)
    left = redacted(f"Bash {call}")
    assert secret not in left
    assert json.loads(left.removeprefix("Bash "))["description"] == 'Say "ü"'
    left = redacted(json.dumps({"name": "Bash", "arguments": call}))
    assert secret not in left
    assert json.loads(json.loads(left)["arguments"])["description"] == 'Say "ü"'


@pytest.mark.parametrize(
    "text", ["bitcoin seed: {}", "my bitcoin seed is {}", "the seed of my ledger: {}", 'WALLET_SEED="{}"']
)
def test_the_words_of_a_wallet_go_behind_any_seed(text: str) -> None:
    assert "carry jealous" not in redacted(
        text.format("army van defense carry jealous true garbage claim echo media make crunch")
    )


@pytest.mark.parametrize(
    "text",
    ["the seed is then set once for all of these runs and never again while they go on", "seed = 42",
     "Seed the table with users, orders, items, carts, prices, taxes, stores, cities, roles, notes, tags, logs"],
)  # fmt: skip
def test_other_seeds_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text",
    ['echo "{}" | sudo -S ls', 'sudo -S ls <<< "{}"', 'echo "{}" | su -c ls bob', 'echo "{}" | kinit bob',
     'printf "{}" | sudo cryptsetup open /dev/x y', 'echo -e "{}\\n{}" | passwd bob', 'yes "{}" | sudo passwd bob',
     "chpasswd <<< 'bob:{}'", "hydra -l bob -p {} ssh://h",
     "psexec \\\\h -u bob -p {} cmd", "evil-winrm -i h -u a -p {}", "ldappasswd -s {} x", "bw unlock {}",
     "mc alias set x http://h AKEY {}", "docker login -u bob --password-stdin <<< {}", "echo a; echo {} | sudo -S ls"],
)  # fmt: skip
def test_a_password_that_a_program_reads_is_taken_out(text: str) -> None:
    assert "Sud1!pw999" not in redacted(text.replace("{}", "Sud1!pw999"))


@pytest.mark.parametrize(
    "text",
    ['echo "apt update" | sudo -s', "sudo -s ls <<< 'apt update'", "echo 'some words' | su -c 'tee /etc/x' bob",
     'echo "$PASSWORD" | kinit bob', "echo done | tee -a /etc/passwd ", 'wc -w <<< "Sud1!pw999"',
     "hydra -P words.txt h", "bw unlock --raw", "mc alias set x http://h",
     "mc ls x/Sud1!pw999", "echo start | grep x | sudo -S ls"],
)  # fmt: skip
def test_what_another_program_reads_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text", ["staging pw {}", "ssh bob@host, pw {} as ever", "creds: bob {}", "Credentials: b@x.org {}"]
)
def test_a_random_password_needs_no_sign_before_it(text: str) -> None:
    assert "X9vQ2mLp7Rt" not in redacted(text.format("X9vQ2mLp7Rt"))


@pytest.mark.parametrize(
    "text",
    [
        "Zugangsdaten:\nadmin / {}",
        "Here are the credentials:\n  - admin:{}",
        "Login:\nbob | {}",
        "identifiants :\nbob, {}",
    ],
)
def test_a_password_may_stand_below_the_word_for_a_login(text: str) -> None:
    assert "Falcon6ridge" not in redacted(text.format("Falcon6ridge"))


@pytest.mark.parametrize(
    "text",
    ["vault login {}", "cargo login {}", "wandb login {}", "snyk auth {}", "cloudflared service install {}",
     "doctl auth init -t {}", "etcdctl --user root:{} get /", "dotnet nuget push a.nupkg -k {}",
     "security unlock-keychain -p {} login.keychain", "composer config http-basic.x.com eve {}"],
)  # fmt: skip
def test_programs_that_log_in_with_a_token(text: str) -> None:
    assert "Kx7mQ2vLw9RtZ" not in redacted(text.format("Kx7mQ2vLw9RtZ"))


@pytest.mark.parametrize(
    "text",
    ["vault login -method=oidc", "cargo login --help", "wandb login failed again", "snyk auth fails",
     "poetry config http-basic.x.com eve", "dotnet nuget push a.nupkg -k $KEY", "etcdctl --user root get /"],
)  # fmt: skip
def test_such_programs_without_a_token_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [('psk="Blaue Kanne am Fenster"', "Blaue Kanne"), ('network={ ssid="x" psk="correct horse 42" }', "horse")],
)
def test_the_phrase_of_a_wireless_network_may_have_spaces(text: str, secret: str) -> None:
    assert secret not in redacted(text)


@pytest.mark.parametrize("line_end", ["\\n", "\\r\\n", "\\\\n"])
def test_the_end_of_a_key_is_known_if_its_line_ends_are_escaped(line_end: str) -> None:
    lines = ["b3Vy" * 17 + "Qx", "c2Vj" * 17 + "Wy", "cmV0Cg=="]
    left = redacted(f'{line_end.join(lines)}{line_end}-----END PRIVATE KEY-----{line_end}"}}')
    assert left == f'[REDACTED:private-key]{line_end}"}}'


@pytest.mark.parametrize(
    "text",
    ["login:\n  image: postgres15", "credentials:\n  user: admin1234", 'psk="wifi_password"',
     "credentials:\nsee the wiki / page2", "Login:\nsrc/login.py and src/auth2.py", "login:\nGET /login 200",
     "Credentials:\nname / email / role", 'psk="${WIFI_PSK} and more"', 'psk="your passphrase here"',
     "hello\\n-----END PRIVATE KEY-----"],
)  # fmt: skip
def test_lines_below_a_login_and_stand_ins_for_a_phrase_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text",
    ["pw ResetForm42Handler is called", "the pw column", "pw 2 of 3", "creds: in KeyVault2", "creds: see page42",
     "creds: bob S3Bucket12", "credentials: from AwsSts2017Client", "creds: rotate on 2026-11-29T10:00Z",
     "login: call signInV2", "login: see PR1234Fix for it", "login: on iPhone14Pro", "creds: ask bob by 17:30"],
)  # fmt: skip
def test_words_behind_pw_and_credentials_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize("depth", range(3))
def test_a_password_in_strings_of_json_in_a_string_is_taken_out(depth: int) -> None:
    text = json.dumps({"arguments": json.dumps({"password": DRAWN, "user": "bob"})})
    for _ in range(depth):
        text = json.dumps(text)
    assert DRAWN not in redacted(text)


@pytest.mark.parametrize("secret", ["Otter5creek", "Fox_91", "correcthorsebattery", "hunter2xyz"])
@pytest.mark.parametrize(
    "text",
    ["Password:\n{}", "**Password:**\n\n{}\n", "db:\n  password:\n    {}\n  user: bob", "password:\n- {}\n",
     "パスワード\uff1a\n{}", "the password?\n<bob> {}\n", "Ida: password?\nBob: {}", "Enter password for bob:\n`{}`"],
)  # fmt: skip
def test_a_password_on_the_line_below_its_label_is_taken_out(text: str, secret: str) -> None:
    assert secret not in redacted(text.format(secret))


@pytest.mark.parametrize(
    "text",
    ["Password:\nrequired", "Forgot password?\nSign in", "password:\n  type: string", "password:\n- required\n- min:8",
     "Password:\n__________", "reset the password?\n<bob> yes", "password:\nauthentication", "password:\nusers_table"],
)  # fmt: skip
def test_other_text_below_a_label_for_passwords_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [("pdftotext -upw {} a.pdf", "Austern9x"), ("mc admin user add local bob {}", "Fischotter22"),
     ("/msg NickServ IDENTIFY {}", "Backbord99"), ('restic --password-command "echo {}" snapshots', "Schneeball44"),
     ("the wifi is Loft and the password's {}", "Moinmoin2023"), ("WPA2-Schlüssel: {}", "48213905617283940516"),
     ("WLAN-Key: {}", "fischbroetchen11"), ("a palavra-passe da conta é {}", "Gaivota+mar8"),
     ("adgangskoden er {}", "Havn_2024x"), ("ログインは admin / {} です", "Kamome#55"),
     ("user: name=root password={{{{ '{}' | password_hash('sha512') }}}}", "Hummer_31")],
)  # fmt: skip
def test_a_password_in_other_words_and_programs_is_taken_out(text: str, secret: str) -> None:
    assert secret not in redacted(text.format(secret))


@pytest.mark.parametrize(
    "text",
    ["mc admin user list local", "nickserv identify failed", "wifi key: none", "WLAN-Schlüssel: siehe Router",
     "password: {{ 'auth.password' | translate }}", "password: {{ 'changeme' | quote }}", 'passcmd "pass show mail"',
     '--password-command "echo $PASS"', "the password's length must be 8chars", "glemt adgangskode? klik her",
     "ログインは必須です", "a palavra-passe expirou em 2024", "the wlan key is in Vault2"],
)  # fmt: skip
def test_such_words_and_programs_without_a_password_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize("depth", range(6))
@pytest.mark.parametrize(
    "line",
    ['{{"db_pass": "{}"}}', '{{"smtp_pw":"{}"}}', r'{{"\u0070assword": "{}"}}', r'{{"p\u0061ss\x77ord":"{}"}}',
     r"{{\u0022password\u0022: \u0022{}\u0022}}", r'{{"contrase\u00f1a": "{}"}}',
     r'{{"\u5bc6\u7801": "{}", "a": "\ud83d"}}', r"\u003cpassword\u003e{}\u003c/password\u003e",
     "a?b=c%3Fpassword%3D{}%20x"],
)  # fmt: skip
def test_escapes_in_a_name_or_around_a_value_hide_nothing_and_the_rest_stays(line: str, depth: int) -> None:
    text = line.format("hunter2xyz")
    for _ in range(depth):
        text = json.dumps({"out": text})
    before, after = text.split("hunter2xyz")
    found = redacted(text)
    assert "hunter2" not in found
    assert (found.startswith(before), found.endswith(after)) == (True, True)


@pytest.mark.parametrize("name", ["contraseña", "пароль", "密码", "password"])
@pytest.mark.parametrize("rest", ["%3D{}", "%3A%20{}"])
def test_a_name_in_percent_encoding_hides_nothing(name: str, rest: str) -> None:
    line = f"q={quote(name)}{rest}"
    assert "Zk9mQ2" not in redacted(line.format("Zk9mQ2vLw7"))


def test_a_long_run_of_backslashes_beside_an_escape_ends() -> None:
    text = "\\u0041 " + "\\" * 300_000
    assert redacted(text) == text


@pytest.mark.parametrize("secret", [r"S3cr\$et9Xq7", r"Vq7\!mLp2Rt", r"aB3\:xY9\\qL5"])
def test_a_password_of_a_pgpass_file_may_have_any_escapes(secret):
    for server in ("db.example.com:5432:app", "localhost:5432:*"):
        assert secret[:4] not in redacted(f"{server}:bob:{secret}\n")
