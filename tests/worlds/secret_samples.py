"""Made-up secrets of many formats, drawn anew each time, and the places where people and programs leave them."""

from __future__ import annotations

import string
from random import Random

from hypothesis import strategies as st

ALNUM = string.ascii_letters + string.digits
SAFE = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits

# Name: (prefix, alphabet, length, suffix).
SHAPES = {
    "aws": ("AKIA", UPPER, 16, ""),
    "aws-session": ("ASIA", UPPER, 16, ""),
    "google": ("AIza", SAFE, 35, ""),
    "google-oauth": ("ya29.", SAFE, 60, ""),
    "google-client": ("GOCSPX-", SAFE, 28, ""),
    "alibaba": ("LTAI", ALNUM, 20, ""),
    "digitalocean": ("dop_v1_", HEX, 64, ""),
    "heroku": ("HRKU-", SAFE, 60, ""),
    "flyio": ("fo1_", SAFE, 43, ""),
    "netlify": ("nfp_", ALNUM, 36, ""),
    "supabase": ("sbp_", HEX, 40, ""),
    "planetscale": ("pscale_tkn_", SAFE, 32, ""),
    "databricks": ("dapi", HEX, 32, ""),
    "vault": ("hvs.", SAFE, 90, ""),
    "pulumi": ("pul-", HEX, 40, ""),
    "doppler": ("dp.pt.", ALNUM, 43, ""),
    "onepassword": ("ops_eyJ", ALNUM, 200, ""),
    "github": ("ghp_", ALNUM, 36, ""),
    "github-oauth": ("gho_", ALNUM, 36, ""),
    "github-user": ("ghu_", ALNUM, 36, ""),
    "github-app": ("ghs_", ALNUM, 36, ""),
    "github-fine": ("github_pat_", ALNUM + "_", 82, ""),
    "gitlab": ("glpat-", SAFE, 20, ""),
    "gitlab-runner": ("glrt-", SAFE, 20, ""),
    "gitlab-deploy": ("gldt-", SAFE, 20, ""),
    "bitbucket": ("ATBB", ALNUM, 32, ""),
    "atlassian": ("ATATT3", SAFE, 180, ""),
    "npm": ("npm_", ALNUM, 36, ""),
    "pypi": ("pypi-AgEIcHlwaS5vcmc", SAFE, 80, ""),
    "rubygems": ("rubygems_", HEX, 48, ""),
    "crates": ("cio", ALNUM, 32, ""),
    "docker": ("dckr_pat_", SAFE, 27, ""),
    "clojars": ("CLOJARS_", LOWER, 60, ""),
    "artifactory": ("AKCp", ALNUM, 69, ""),
    "linear": ("lin_api_", ALNUM, 40, ""),
    "sourcegraph": ("sgp_", HEX, 40, ""),
    "sonar": ("sqp_", HEX, 40, ""),
    "anthropic": ("sk-ant-api03-", SAFE, 93, "AA"),
    "openai": ("sk-proj-", SAFE, 120, ""),
    "openai-old": ("sk-", ALNUM, 48, ""),
    "openrouter": ("sk-or-v1-", HEX, 64, ""),
    "huggingface": ("hf_", ALNUM, 34, ""),
    "groq": ("gsk_", ALNUM, 52, ""),
    "xai": ("xai-", ALNUM, 80, ""),
    "replicate": ("r8_", ALNUM, 37, ""),
    "perplexity": ("pplx-", ALNUM, 48, ""),
    "nvidia": ("nvapi-", SAFE, 64, ""),
    "pinecone": ("pcsk_", ALNUM, 64, ""),
    "tavily": ("tvly-", ALNUM, 32, ""),
    "stripe": ("sk_live_", ALNUM, 24, ""),
    "stripe-limited": ("rk_test_", ALNUM, 24, ""),
    "stripe-hook": ("whsec_", ALNUM, 32, ""),
    "square": ("sq0atp-", SAFE, 22, ""),
    "razorpay": ("rzp_live_", ALNUM, 14, ""),
    "slack-bot": ("xoxb-", string.digits, 12, "-" + "9f3k2Lq8Zp4WxT7vBn1c"),
    "sendgrid": ("SG.", SAFE, 66, ""),
    "slack-app": ("xapp-1-", UPPER, 11, "-31415926535-a81bc81ead4e5d7c"),
    "brevo": ("xkeysib-", HEX, 64, "-Qx7kP2mZ9vL4tR8w"),
    "mailgun": ("key-", HEX, 32, ""),
    "shopify": ("shpat_", HEX, 32, ""),
    "notion": ("ntn_", ALNUM, 46, ""),
    "figma": ("figd_", SAFE, 40, ""),
    "grafana": ("glsa_", ALNUM, 32, "_9af31c07"),
    "newrelic": ("NRAK-", UPPER, 27, ""),
    "sentry": ("sntryu_", HEX, 64, ""),
    "typeform": ("tfp_", SAFE, 59, ""),
    "prefect": ("pnu_", ALNUM, 36, ""),
    "telegram": ("https://api.telegram.org/bot", string.digits, 10, ":AAFz3Xq9LmT7vKp2WnR5sYd8HgJ4bC6uE0"),
    "slack-hook": ("https://hooks.slack.com/services/T", UPPER, 10, "/B0DD08H5G/bJtrpFi1fO1JMCcwLx8uZyAg"),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJ", ALNUM, 40, ".kvRPfjAhLhtRTczoRgctVGp7KY1QVH3UBZM"),
    "age": ("AGE-SECRET-KEY-1", UPPER, 58, ""),
    "azure": ("abc8Q~", ALNUM, 34, ""),
    "langsmith": ("lsv2_pt_", HEX, 32, "_0a1b2c3d4e"),
}
UNNAMED = {"hex": (HEX, 32), "letters": (ALNUM, 24), "uuid": (HEX, 32), "lower": (LOWER, 20)}  # known by context alone

CONTEXTS = {
    "line": "{}",
    "sentence": "please try {} and tell me",
    "env": "export SERVICE_TOKEN={}",
    "dotenv": "DB_PASSWORD={}\nPORT=80",
    "json": '{{"api_key": "{}", "region": "eu"}}',
    "json-escaped": '{{\\"password\\": \\"{}\\"}}',
    "yaml": "client_secret: {}\nname: x",
    "python": 'client = Client(api_key="{}")',
    "prose": "ok so the acme key is {} please keep it",
    "german": "Das Passwort lautet {} und sonst nichts.",
    "header": "curl -H 'Authorization: Bearer {}' https://example.org",
    "header-key": 'curl -H "X-Api-Key: {}" https://example.org',
    "url": "https://example.org/v1?access_token={}&page=2",
    "userinfo": "git clone https://user:{}@example.org/x.git",
    "trace": '  File "a.py", line 3\nValueError: bad token: {}\n',
    "diff": "-old\n+SECRET_KEY = '{}'\n",
    "flag": "tool --token {} --verbose",
    "clause": "with {}, it works",
    "full stop": "It is {}.",
    "brackets": "(see <{}>)",
    "emphasis": "it is **{}** now",
    "path": "https://example.org/hook/{}/send",
    "written line feeds": "so\\n{}\\nend",
}
# Where no name tells what it is, and the form alone has to.
BY_FORM = {"line", "sentence", "clause", "full stop", "brackets", "emphasis", "path", "written line feeds"}
BY_NAME = [name for name in CONTEXTS if name not in BY_FORM]

HARMLESS = [
    "commit 9dc71f13b1d915dcd394f9eaaa03e12f148a73d4",
    "session_id: 26b2e695-bca8-42b3-815f-c0af8932cd95",
    "tool_use toolu_01XFDUDYJgAACzvnptvVoYEL called",
    "msg_01AbCdEfGhJkLmNpQrStUvWx and req_011CQ2mZxyKv and chatcmpl-9Xq2vLmT7Kp",
    "image@sha256:a32ab7e6ccbc490aba32f23fc923ef19d0c998cc59bd1a09bdf478eebcf2b98f",
    '"integrity": "sha512-vOWAv2Tu3nYnelmivmWmXf48DpbADktydnvER8t2Ml76UJak2QxeaKLat1rpwHP6Q/d+hljloDxz8iYDYiNFyg=="',
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    'password = os.environ["DB_PASSWORD"]',
    "password = getpass.getpass()",
    "export OPENAI_API_KEY=<your-api-key>",
    "TOKEN=${GITHUB_TOKEN}",
    'curl -H "Authorization: Bearer $TOKEN" https://example.org',
    'token = "xxxxxxxxxxxxxxxxxxxxxxxx"',
    "password: changeme",
    "max_tokens=4096, input_tokens: 1234",
    '"tokens": 12345678901234',
    "def check_password(password: str, hashed: bytes) -> bool:",
    "const token = await getToken(request)",
    "the key is to keep the secret of the token safe",
    "Your password is required. The token was invalid or expired.",
    "the primary key is a uuid, the cache key is user-profile-v2",
    "self.api_key = api_key",
    "token: AccessToken | None = None",
    "docker run -u 1000:1000 alpine",
    "curl -u username:password https://example.org",
    "postgres://user:password@localhost/db and http://localhost:8080/@scope/pkg",
    "if (a <b) private int x; std::vector<private_type>",
    "see entire/auth-go/pull/5#issuecomment-4498401458 and max-tokens-3-5-sonnet-2024-07-15",
    "BasicAuth(username=auth[0], password=auth[1])",
    'dict.fromkeys(["username", "password", "repository"])',
    "Signature: 8a477f597d28d172789f06886806bc55",
    "ssh-rsa and ssh-ed25519 are kinds of keys",
]


def secret(name: str, random: Random) -> str:
    """A secret of this format."""
    if name in UNNAMED:
        alphabet, length = UNNAMED[name]
        drawn = "".join(random.choices(alphabet, k=length - 2)) + "7f"
        return "-".join((drawn[:8], drawn[8:12], drawn[12:16], drawn[16:20], drawn[20:])) if name == "uuid" else drawn
    prefix, alphabet, length, suffix = SHAPES[name]
    return prefix + "".join(random.choices(alphabet, k=length)) + suffix


@st.composite
def secrets(draw: st.DrawFn) -> str:
    """A secret of any format that is known by its own look."""
    return secret(draw(st.sampled_from(sorted(SHAPES))), Random(draw(st.integers(0, 2**32))))
