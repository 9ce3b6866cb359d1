"""A value that is like no word or name is a password where a word for one is on its line, whatever stands between."""

from __future__ import annotations

import pytest

from memoryd.scrub import commands
from memoryd.scrub.named import trim
from memoryd.scrub.policy import Policy
from memoryd.scrub.scan import scan

ODD = ("Otter5creek", "R4ven_nest", "Kestrel!55dune", "kite_Drache_28", "Meşe9orman")
SYNTAXES = (
    '{{"ref":"e1","element":"Password input","text":"{}"}}', "cy.get('#login-password').type('{}')",
    'DriverManager.getConnection(url, "app", "{}")', '$("#admin_pass").val("{}");', '#define AP_PSK "{}"',
    "ich habe das Passwort auf {} geändert", "j'ai changé le mot de passe en {}", "heslo k wifi: {}",
    "新密码改成了 {}", "와이파이 비번: {}", "try {} as password please", "you can decrypt it with {}",
    "crypto isakmp key {} address 10.1.1.1", "username admin privilege 15 password 0 {}", "${{DB_PASSWORD:-{}}}",
    'sql.Open("mysql", "app:{}@tcp(10.0.0.4:3306)/shop")', "the login of the box is ida, with {}",
)  # fmt: skip
IN_QUOTES = (
    'WiFi.begin("Nestbox", "{}");', "mysql.connect('db.local', 'app', '{}', 'orders')", '#define WIFI_PASS "{}"',
    'expect(page.locator("#password")).toHaveValue("{}")', '{{"name":"Password","text":"{}"}}',
)  # fmt: skip
PLAIN = (
    "the ticket Otter5creek is open", "password\nOtter5creek", "password of the next line\\nOtter5creek",
    "the password is in notes/Chapter_5.md", "log in with Python3 and OAuth2", "user Test_1 logged in",
    "const STORAGE_KEY = 'theme.v2'", "wifi Guest_2 and key Page_12", "the key class Ed448PublicKey",
    "the passphrase of a PKCS#12 file", "connect(host, Port_5(x))",
    "password: see Form2.pdf", "Credentials.basic(user, password2)", "the password for Windows 11 on 2024-05-06",
)  # fmt: skip
TOLD = {
    "SIM PIN 8264, PUK 49271835": ("8264", "49271835"),
    "key box code is 2047": ("2047",),
    "unlock code for the phone: 390517": ("390517",),
    "le code de la porte est 7204B": ("7204",),
    "kod do bramy: 2296": ("2296",),
    "暗証番号は4827です": ("4827",),
    "passcode for the meeting: 783 114": ("783 114",),
    "recovery codes: 8f2k-q0zm 7wxl-93ht": ("8f2k-q0zm", "7wxl-93ht"),
    "app password: fkqz mwxl thbv nrcp": ("fkqz mwxl thbv nrcp",),
    "setup key: GEZD GNBV GY3T QOJQ": ("GEZD GNBV",),
    "https://nest.org/hooks/w83kf0qzm27xlt": ("w83kf0qzm27xlt",),
    "https://nest.org/a?x=1&sig=k8Zq0mfW27xLw93h": ("k8Zq0mfW27xLw93h",),
    '["mysql", "-u", "root", "-pnight8shade"]': ("night8shade",),
    'subprocess.run(["sshpass", "-p", "night8shade", "ssh"])': ("night8shade",),
    "lftp -u deploy,night8shade sftp://files": ("night8shade",),
    "swaks --server mail -au ida -ap night8shade": ("night8shade",),
    "Kt5Wm8Zb2Qx7 ist das Passwort vom NAS": ("Kt5Wm8Zb2Qx7",),
    "Kt5Wm8Zb2Qx7 est le mot de passe": ("Kt5Wm8Zb2Qx7",),
    "vG7pTzq2XnLb ist das Kennwort der Fritzbox": ("vG7pTzq2XnLb",),
    "用户名 ida 密码 Kt5Wm8Zb2Qx7": ("Kt5Wm8Zb2Qx7",),
    "I set the new PSK to Kt5Wm8Zb2Qx7 on both ends": ("Kt5Wm8Zb2Qx7",),
    "Login ida / Kt5Wm8Zb2Qx7, always use this account": ("Kt5Wm8Zb2Qx7",),
    "einloggen mit ida / Kt5Wm8Zb2Qx7": ("Kt5Wm8Zb2Qx7",),
    "git remote add o https://Kt5Wm8Zb2Qx7@github.com/x/y": ("Kt5Wm8Zb2Qx7",),
    "enable secret 0 night8Shade": ("night8Shade",),
    "crypto isakmp key night8Shade address 10.1.1.1": ("night8Shade",),
    "tacacs-server key night8Shade": ("night8Shade",),
    "snmpwalk -v2c -c Goshawk9wood 10.0.0.1": ("Goshawk9wood",),
    "snmpstatus -c public.Goshawk9 10.0.0.1": ("public.Goshawk9",),
    "snmpwalk -v3 -u ida -A night8shade -X owl9harbor sw1": ("night8shade", "owl9harbor"),
    "the admin one is kX9#mP2vQ": ("kX9#mP2vQ",),
    "for the router it's Tr0ub4dor&3": ("Tr0ub4dor&3",),
    "the vpn one is tR7*mQ2+vXk9p": ("tR7*mQ2+vXk9p",),
    "root / t6@2uVrc on the old box": ("t6@2uVrc",),
    "ssh ida@host and then (3L&mSxY3)": ("3L&mSxY3",),
    "I changed it, the new one is g6%Je3LqfU.": ("g6%Je3LqfU",),
    "my account on jenkins: ida / r5$dkVKMus5": ("r5$dkVKMus5",),
    "snmpwalk -v2c -cgoshawkwood sw1": ("goshawkwood",),
    "snmpget -v3 -A barnacleowl -X tundrafox sw1": ("barnacleowl", "tundrafox"),
    "# v2\nrocommunity goshawkwood default\nrwcommunity  otter\n": ("goshawkwood", "otter"),
    "# v2\n  rocommunity goshawkwood\n\t\trwcommunity otter": ("goshawkwood", "otter"),
    "mysql -u root -pnight8mysql -h db": ("night8mysql",),
    "set rocommunity night8shade 10.0.0.0/8": ("night8shade",),
    "createUser ida SHA goshawkwood AES owlharbor": ("goshawkwood", "owlharbor"),
    "com2sec ro default goshawkwood": ("goshawkwood",),
    "radius-server host 10.1.1.1 auth-port 1812 key 7 night8Shade": ("night8Shade",),
    "cypher-shell -u neo4j -p night8Shade 'MATCH (n) RETURN n'": ("night8Shade",),
    "kafkacat -u ida -p hT6!bq3Zx topics": ("hT6!bq3Zx",),
    "kafkacat -p v7Nq2xRt9K --user ida": ("v7Nq2xRt9K",),
    "nxc smb 10.0.0.5 -u ida -p Goshawk9wood": ("Goshawk9wood",),
    "plink -l ida -pw Goshawk9wood host": ("Goshawk9wood",),
    "schtasks /create /ru corp\\ida /rp Goshawk9wood": ("Goshawk9wood",),
    "esxcli -s esx1 -u root -p night8shade vm list": ("night8shade",),
    "requirepass night8shade": ("night8shade",),
    "/msg NickServ identify night8shade": ("night8shade",),
    "neighbor 10.0.0.1 password night8shade": ("night8shade",),
    "standby 1 authentication md5 key-string night8shade": ("night8shade",),
    "ip ospf message-digest-key 1 md5 7 night8shade": ("night8shade",),
    "jenkins-cli -auth ida:night8shade list-jobs": ("night8shade",),
    "curl --proxy-user ida:night8shade http://nest.org": ("night8shade",),
    "openconnect -u ida --passwd-on-stdin vpn <<< night8shade": ("night8shade",),
    "keepassxc-cli open --pw-stdin db.kdbx <<< night8shade": ("night8shade",),
    "pdftk a.pdf output b.pdf user_pw night8shade": ("night8shade",),
    "rar a -hpnight8shade a.rar docs": ("night8shade",),
    "mcrcon -H host -p night8shade list": ("night8shade",),
    "osql -S sql01 -P Goshawk9wood -U sa": ("Goshawk9wood",),
    "dsquery user /u corp\\ida /p Goshawk9wood": ("Goshawk9wood",),
    "htpasswd -c -b -C 12 users ida night8shade": ("night8shade",),
    "htpasswd -B -b -n ida night8shade": ("night8shade",),
    "mosquitto_passwd -b users ida night8shade": ("night8shade",),
    "expdp system/night8Shade@prod full=y": ("night8Shade",),
    "virsh set-user-password vm1 root night8shade": ("night8shade",),
    "steamcmd +login ida night8shade +quit": ("night8shade",),
    "spark.hadoop.fs.s3a.secret.key   Kt5Wm8Zb2Qx7": ("Kt5Wm8Zb2Qx7",),
    "[mail.nest.org]:587 ida@nest.org:night8Shade": ("night8Shade",),
}
HARMLESS = (
    "the meeting is in room 4471", "error code 390517", "pin 4471 of the header", "the code for the tests is 2047",
    "the verification code was sent", "backup codes are on page 2", "recovery key: turn that lock with both hands",
    "redis-cli -u redis://localhost:6379 ping", "https://nest.org/hooks/pre-commit", "https://nest.org/a?code=200",
    '["mysql", "-u", "root", "-p"]',
    '["ssh", "-p", "2222", "pi@h"]', "lftp -u deploy sftp://files", "the pin says 47",
    "'password' => 'required|min:8|confirmed',", "OLDPWD=/home/ida/v1.2",
    "decrypt uses AesGcm256V2Iv12Tag16", "the password check lives in Pbkdf2HmacSha256V3Impl",
    "the password hash uses Argon2IdV19M65536",
    "see video dQw4w9WgXcQ about passwords", "Login dialog / Web2Form", "https://K8sDeploy2Bot@git.nest.org/x",
    "crypto isakmp key <PSK> address 0.0.0.0",
    "tacacs-server key command of IOS15", "snmpwalk -v3 -l authPriv -a SHA -A $AUTH_PASS2 sw1",
    "snmpwalk -v2c -c public sw1", "snmpget -c private sw1", "snmpget -v1 -c $COMMUNITY sw1",
    "the admin page is at Docs2.html#L10", "the root one is rpc#L163-213", "it's From&#60;T&#62;",
    "admin is a%5Bb%5dC2x",
    "the root commit is 3fA9c2D", "root: hello%2BWo2", "admin of Ab3@Xy.example.org",
    "the router id is dQw4w9WgXcQ", "set to B2*cols+1", "set to 3*X1+2*Yz4", "the admin A1*b2*C3d4 formula",
    "set to Foo::Bar1!Baz2Q", "admin: SHA256:Kt5Wm8Zb2Qx7Ld4Vn", "root = ${Ab1}/x#Y2",
    "snmpwalk -v2c -cpublic sw1", "snmpget -A authpassword -X PRIVPHRASE sw1",
    "\nrocommunity public\nrocommunity in snmpd.conf", "  rocommunity public", "see the rocommunity setting",
    "com2sec ro default public", "createUser -P ida", "docker run -u ida -p 8080:80 web",
    "sacct -u ida -p gpu2024", "squeue -u ida -p gpu8big", "neighbor 10.0.0.1 remote-as 65001", "ip ospf 1 area 0",
    "standby 1 priority 110", "requirepass is in redis.conf", "jenkins-cli -auth $USER:$TOKEN", "mostrar -parametro2",
    "python -u train.py -p exp_run2", "docker compose -p shop2prod exec -u www-data app sh",
    "docker-compose -p Shop_v2 run --user root app", "systemctl --user show -p Restart2Sec foo",
    "adb shell am start --user 0 -p com.app2go", "mysqldump -u root -p Shop2Prod", "sinfo -u ida -p gpuA100x4",
    "npx -p create-vite@^5.2.0 --user ida", "mongo -u admin -p 27017", "nxc smb 10.0.0.5 -u ida -p instead",
    "git add -u -p Goshawk9wood", "ls -u x; ls -p Goshawk9wood", "htpasswd -c users2 ida",
    "steamcmd +login anonymous +app_update 740", "radius-server host 10.1.1.1 auth-port 1812",
    "fs.s3a.secret.key org.apache.hadoop.S3AProvider2", "[a.py]:587 line2:col14",
    "host key fingerprint: SHA256:Kt5Wm8Zb2Qx7Ld4Vn",
)  # fmt: skip


def redacted(text: str) -> str:
    return scan([text], Policy(), lambda _: ())[0].text


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("text", SYNTAXES)
def test_what_is_like_no_word_is_taken_out_beside_a_word_for_a_password(text: str, value: str) -> None:
    assert value not in redacted(text.format(value))


@pytest.mark.parametrize("text", IN_QUOTES)
def test_in_a_call_or_a_field_a_word_with_a_number_in_it_is_taken_out(text: str) -> None:
    assert "barnacle4ever" not in redacted(text.format("barnacle4ever"))


@pytest.mark.parametrize("text", PLAIN)
def test_the_rest_of_the_line_and_other_lines_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize("text", TOLD)
def test_numbers_of_locks_codes_addresses_and_flags_are_taken_out(text: str) -> None:
    after = redacted(text)
    assert [secret for secret in TOLD[text] if secret in after] == []


@pytest.mark.parametrize("text", HARMLESS)
def test_other_numbers_addresses_and_flags_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize("text", ["mysql -p", "expdp a/", "sqlplus a/", "snmpwalk -c"])
def test_a_command_that_repeats_without_spaces_is_not_read_many_times(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = []
    monkeypatch.setattr(commands, "trim", lambda value: judged.append(value) or trim(value))
    redacted(text * 200)
    assert len(judged) <= 3 * 200
