"""`doctor` and the model's endpoint: what it says of each answer, what it sends, and over which connection."""

import json
import socket
import ssl
import subprocess

import pytest
from chat_server import ASK, ChatServer, endpoint_of, refuse, send
from model_world import KEY, VARIABLE, World

from memoryd.interfaces import doctor
from memoryd.jobs.job import Reply
from memoryd.llm import openai_chat, probe
from memoryd.llm.endpoint import Deadlines
from memoryd.llm.failure import Failure, Trouble


def models(*names):
    return send(json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode(), "application/json")


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setenv("A_KEY", KEY)
    monkeypatch.setattr(probe, "DEADLINES", Deadlines(1.0, 1.0, 1.0, 2.0))
    with ChatServer(models("tiny-1", "tiny-2")) as running:
        yield running


def checks(world, **agent):
    found = doctor.doctor(world.settings(**agent), world.time.at)["checks"]
    assert KEY not in json.dumps(found)
    return [(one["level"], one["text"], one["hint"]) for one in found if one["name"] == "model"]


def test_one_cheap_question_that_says_all_is_well(server, tmp_path):
    ((level, text, hint),) = checks(World(tmp_path, server.url))
    assert (level, hint) == ("ok", "")
    assert text == f"tiny-1 at {server.url} for demo answers, and lists the model"
    (request,) = server.requests
    assert (request.line, request.body) == ("GET /v1/models HTTP/1.1", b"")
    assert request.headers["authorization"] == f"Bearer {KEY}"


def trickle(connection, _request):
    connection.head()
    connection.trickle(b"x")


ELSEWHERE = "http://169.254.169.254/v1/models"
ANSWERS = {
    "wrong key": (refuse("401 Unauthorized", f"bad key {KEY}"), "fail", "does not accept the key", VARIABLE),
    "forbidden": (refuse("403 Forbidden"), "fail", "does not accept the key", "valid key"),
    "no credit": (refuse("402 Payment Required"), "fail", "no credit", "owner"),
    "not there": (refuse("404 Not Found"), "warn", "no such path (404)", "base_url"),
    "another model": (models("huge-9"), "warn", "does not list the model", "llm.model"),
    "not a list": (send(b"hello", "text/plain"), "ok", "without a list", ""),
    "a list of nonsense": (send(b'{"data": [{"id": 1}, 2]}', "application/json"), "ok", "without a list", ""),
    "nested without end": (send(b"[" * 100_000, "application/json"), "ok", "without a list", ""),
    "an error": (refuse("500 Oh", "secret words"), "fail", "with an error (500)", "log"),
    "elsewhere": (
        lambda line, _: line.head("302 Found", None, f"Location: {ELSEWHERE}", "Content-Length: 0"),
        "fail", "sends elsewhere", "base_url",
    ),
    "silence": (lambda line, _: line.stall(), "fail", "did not answer in time", "overloaded"),
    "a trickle": (trickle, "fail", "did not answer in time", "overloaded"),
    "a reset": (lambda line, _: line.reset(), "fail", "cannot be reached", "host and port"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_each_answer_has_its_line_and_what_to_do(server, tmp_path, name):
    server.part, level, text, hint = ANSWERS[name]
    (found,) = checks(World(tmp_path, server.url))
    assert (found[0], text in found[1], hint in found[2]) == (level, True, True), found
    assert "secret words" not in found[1]
    assert server.connections == 1


def test_nobody_listens(server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    (found,) = checks(World(tmp_path, f"http://127.0.0.1:{port}/v1"))
    assert (found[0], "cannot be reached" in found[1]) == ("fail", True)


def test_a_key_that_is_not_set_is_told_before_anybody_is_asked(server, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    (found,) = checks(World(tmp_path, "https://models.example/v1"))
    assert (found[0], f"the variable {VARIABLE}, for the key, is not set" in found[1]) == ("fail", True)


def test_a_name_that_leads_to_a_metadata_service_is_not_asked(server, tmp_path, monkeypatch):
    inside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_more: inside)
    (found,) = checks(World(tmp_path, "https://models.example/v1"))
    assert (found[0], "metadata" in found[1]) == ("fail", True)


def test_each_agent_with_an_endpoint_of_its_own_is_looked_at(server, tmp_path):
    with ChatServer(refuse("404 Not Found")) as other:
        (found,) = checks(World(tmp_path, server.url), base_url=other.url, model="own-1")
        assert found[1].startswith(f"own-1 at {other.url} for demo")
        assert (len(other.requests), len(server.requests)) == (1, 0)


# --- https ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of 127.0.0.1 that only those trust who are told to, and its key, by the system's own tool."""
    folder = tmp_path_factory.mktemp("certificate")
    made = subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=memoryd test",
            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem",
        ],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("openssl makes no certificate here")
    return folder


@pytest.fixture
def secure(certificate, server):
    server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return server


def test_a_certificate_that_is_trusted_by_the_environment_is_spoken_to(secure, certificate, tmp_path, monkeypatch):
    from chat_server import good

    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    assert checks(World(tmp_path, secure.url))[0][0] == "ok"
    secure.part = good
    assert isinstance(openai_chat.answer(ASK, endpoint_of(secure.url)), Reply)


def test_one_that_is_not_trusted_gets_no_key_and_waits_for_a_person(secure, tmp_path, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    ((level, text, hint),) = checks(World(tmp_path, secure.url))
    assert (level, "not trusted" in text, "SSL_CERT_FILE" in hint) == ("fail", True, True)
    failure = openai_chat.answer(ASK, endpoint_of(secure.url))
    assert isinstance(failure, Failure)
    assert (failure.trouble, failure.billed, "certificate" in failure.what) == (Trouble.BLOCKED, False, True)
    assert secure.requests == []


def test_a_certificate_of_another_host_is_not_trusted(secure, certificate, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    url = secure.url.replace("127.0.0.1", "localhost")
    assert "not its own" in checks(World(tmp_path, url))[0][1]
    assert secure.requests == []
