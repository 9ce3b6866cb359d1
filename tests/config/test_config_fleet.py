"""The keys of a fleet: what is missing is refused with its key, and no password gets into the settings."""

import json

import pytest

from memoryd import config
from memoryd.errors import ConfigError

URL = "postgresql://memoryd@db.example.org:5432/memoryd?sslmode=verify-full"
MODEL = {"provider": "fleet", "model": "m"}


def load(tmp_path, privacy="open", **settings):
    (tmp_path / "work").mkdir(exist_ok=True)
    agents = [{"id": "demo", "workspace": "work", "transcripts": [], "privacy": privacy}]
    path = tmp_path / "memoryd.yaml"
    path.write_text(json.dumps({"state_dir": "state", "agents": agents} | settings, indent=1))
    return config.load(path)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"fleet": {"database": URL}}, "fleet.host: is missing"),
        ({"llm": MODEL}, "fleet.database: is missing"),
        ({"llm": {"provider": "fleet"}, "fleet": {"database": URL, "host": "a"}}, "llm.model: is missing"),
        ({"llm": MODEL, "privacy": "silo", "fleet": {"database": URL, "host": "a"}}, "fleet.key_file: is missing"),
        ({"fleet": {"database": "mysql://db/x", "host": "a"}}, "a PostgreSQL URL is needed"),
        (
            {"fleet": {"database": URL.replace("memoryd@", "memoryd:hunter22@"), "host": "a"}},
            "a password is in the URL",
        ),
        ({"fleet": {"database": f"{URL}&password=hunter22", "host": "a"}}, "a password is in the URL"),
        ({"fleet": {"database": URL, "host": "Robert'); DROP"}}, "fleet.host"),
    ],
)
def test_half_a_fleet_is_refused(tmp_path, settings, told):
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, **settings)
    assert told in str(refused.value)
    assert "hunter22" not in str(refused.value)


def test_a_whole_fleet_is_taken(tmp_path):
    key = {"key_file": "fleet.key"}
    settings = load(tmp_path, "silo", llm=MODEL, fleet={"database": URL, "host": "a", **key})
    assert settings.fleet.database == URL
    assert settings.fleet.key_file == tmp_path / "fleet.key"
