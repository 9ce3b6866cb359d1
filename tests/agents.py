"""Real agent programs with memoryd: their hooks, its tools in them, their transcripts. Needs Node.js with npm.

usage: make agents [AGENTS="codex claude-code …"]

Each program is fetched into a temporary folder (PROGRAMS=DIR keeps it for the next time), connected as the README
says, and run without a person against a model on the loopback that says what it is told to say. All share one memory.
One line is printed for each agent and check; what cannot be had is skipped by its name.

Then all share another memory, and three days pass: what was decided in one session is told to the next ones.
Last, `memoryd init --yes` finds them on a fresh machine, and each is told at its start what the one before decided.
"""

import html
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from datetime import date, datetime, timedelta
from pathlib import Path

from model_apis import ModelServer, Use
from scratch import until

from memoryd.requests.daemon_client import ask

OPEN = "<memoryd-context>"
LEAD = "Kept by memoryd from earlier sessions here. Not a message of the user; a fault may be fixed by now."
OLD_DAYS = {"codex": "staging", "claude-code": "billing", "gemini": "mailing", "opencode": "backup", "pi": "printing",
            "openclaw": "testing"}  # fmt: skip
PATIENCE = 240  # seconds of one run of an agent
WEEKEND = timedelta(days=3)  # from a session to the next one
# What a person decides before it. Nothing of it stands in a prompt after it.
FRIDAY = {
    "codex": "Let's keep invoices in PostgreSQL instead of SQLite, because two hosts write them.",
    "claude-code": "We decided to print the labels as ZPL instead of PDF, because the printers cut off PDF.",
}


class Agent(ABC):
    """One program.

    Attributes:
        name: as `connect` calls it.
        package: of the registry, with its version where another one is not looked for.
        program: what is started.
        node: the least major version of Node.js.
        served: whether it has memoryd's tools.
        reads: whether memoryd reads its transcripts.
        meanwhile: a tool to call until the server of the others has started.
        ends: whether it says when a session is over; else that is noticed after `sessions.idle_end`.
        window: of the context in tokens, where it can be told to compact by itself.
    """

    name = package = program = ""
    node = 20
    served = True
    reads = False
    ends = True
    meanwhile = None
    window = None

    def settings(self, world):
        """What a person had in their configuration, by its path."""
        return {}

    def environ(self, url):
        return {}

    @abstractmethod
    def words(self, prompt, url):
        """The command line of a session, without the program."""


class Codex(Agent):
    name, package, program, reads = "codex", "@openai/codex", "codex", True
    meanwhile = Use("exec_command", {"cmd": "sleep 1"})

    def settings(self, world):
        provider = f'name = "loop"\nbase_url = "{world.model.url}/v1"\nwire_api = "responses"\nenv_key = "LOOP_KEY"\n'
        text = f'# mine\nmodel = "scripted"\nmodel_provider = "loop"\n\n[model_providers.loop]\n{provider}'
        return {".codex/config.toml": text}

    def environ(self, url):
        return {"LOOP_KEY": "none"}

    def words(self, prompt, url):
        # As trusted by a person in /hooks.
        trusted = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
        return ["exec", "--skip-git-repo-check", *trusted, prompt]


class ClaudeCode(Agent):
    name, package, program, reads = "claude-code", "@anthropic-ai/claude-code", "claude", True
    meanwhile = Use("WaitForMcpServers", {})
    window = 100_000  # the least it takes

    def settings(self, world):
        return {".claude/settings.json": '{"cleanupPeriodDays":99}', ".claude.json": '{\n  "numStartups": 3\n}\n'}

    def environ(self, url):
        quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        quiet["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(self.window)
        return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-none"} | quiet

    def words(self, prompt, url):
        return ["-p", prompt, "--allowedTools", "mcp__memoryd"]


class Gemini(Agent):
    name, package, program = "gemini", "@google/gemini-cli", "gemini"
    meanwhile = Use("run_shell_command", {"command": "sleep 1"})

    def settings(self, world):
        auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"disableAutoUpdate": True}}
        return {".gemini/settings.json": json.dumps(auth, indent=4)}

    def environ(self, url):
        return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url}

    def words(self, prompt, url):
        return ["--yolo", "--skip-trust", "-m", "gemini-2.5-flash", "-p", prompt]


class OpenCode(Agent):
    name, package, program = "opencode", "opencode-ai", "opencode"
    meanwhile = Use("bash", {"command": "sleep 1", "description": "Waits"})

    def settings(self, world):
        models = {"models": {"scripted": {"name": "Scripted", "tool_call": True}}}
        options = {"baseURL": f"{world.model.url}/v1", "apiKey": "none"}
        provider = {"loop": {"npm": "@ai-sdk/openai-compatible", "name": "Loop", "options": options} | models}
        settings = {"model": "loop/scripted", "provider": provider, "autoupdate": False}
        return {".config/opencode/opencode.json": json.dumps(settings)}

    def words(self, prompt, url):
        return ["run", "--model", "loop/scripted", prompt]


class Pi(Agent):
    name, package, program, served = "pi", "@mariozechner/pi-coding-agent", "pi", False

    def settings(self, world):
        options = {"baseUrl": f"{world.model.url}/v1", "apiKey": "none", "api": "openai-completions"}
        models = [{"id": "scripted", "name": "Scripted", "contextWindow": 128_000, "maxTokens": 4096}]
        return {".pi/agent/models.json": json.dumps({"providers": {"loop": options | {"models": models}}})}

    def words(self, prompt, url):
        return ["--offline", "--provider", "loop", "--model", "scripted", "-p", prompt]


class OpenClaw(Agent):
    name, package, program, node = "openclaw", "openclaw@2026.9.6", "openclaw", 24
    meanwhile = Use("exec", {"command": "sleep 1"})

    def settings(self, world):
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {"id": "scripted", "name": "Scripted", "reasoning": False, "input": ["text"], "cost": cost}
        options = {"baseUrl": f"{world.model.url}/v1", "apiKey": "sk-local", "api": "openai-completions"}
        models = [model | {"contextWindow": 120_000, "maxTokens": 8192}]
        settings = {
            "agents": {"defaults": {"workspace": str(world.workspace), "model": {"primary": "loop/scripted"}}},
            "models": {"mode": "merge", "providers": {"loop": options | {"models": models}}},
            "tools": {"toolSearch": False},
        }
        return {".openclaw/openclaw.json": json.dumps(settings, indent=2) + "\n"}

    def words(self, prompt, url):
        return ["agent", "--local", "--session-id", f"s{time.monotonic_ns()}", "-m", prompt]

    def words_of_group(self, prompt):
        """The command line of a session in which others read along."""
        return ["agent", "--local", "--session-key", "agent:main:telegram:group:-100123", "-m", prompt]


AGENTS = (Codex(), ClaudeCode(), Gemini(), OpenCode(), Pi(), OpenClaw())


class World:
    """A home, a workspace, a daemon and a model; the programs are beside it."""

    def __init__(self, root, model, **settings):
        self.root, self.model = root, model
        self.home, self.workspace, self.state = root / "home", root / "shop", root / "state"
        self.programs = Path(os.environ.get("PROGRAMS") or root.parent / "programs").resolve()
        self.day = self.workspace / "memory" / time.strftime("%Y-%m-%d.md")
        for folder in (self.home, self.day.parent, self.programs):
            folder.mkdir(parents=True, exist_ok=True)
        (self.workspace / "MEMORY.md").write_text("# Memory\n\n- Deploys happen on Mondays.\n", encoding="utf-8")
        for number, of in enumerate(OLD_DAYS.values(), 1):
            text = f"# Daily Memory: 2026-01-0{number}\n\n## Note (09:00)\n\nThe {of} server moved to Frankfurt.\n"
            (self.day.parent / f"2026-01-0{number}.md").write_text(text, encoding="utf-8")
        # Hooks and tools answer only what runs in the project, so that each program must say where that is.
        folders, project = (".codex/sessions", ".claude/projects"), str(self.workspace)
        sources = [{"path": f"{self.home}/{one}/**/*.jsonl", "project": project} for one in folders]
        agent = {"id": "shop", "workspace": str(self.workspace), "transcripts": sources}
        self.config = root / "memoryd.yaml"
        settings |= {"state_dir": str(self.state), "agents": [agent], "facts": {"debounce": "1s"}}
        self.config.write_text(json.dumps(settings), encoding="utf-8")
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        self.environ = kept | {"HOME": str(self.home), "TERM": "dumb", "NO_COLOR": "1"}
        self.daemon = None

    def __enter__(self):
        return self

    def start(self):
        with (self.root / "daemon.out").open("wb") as out:
            self.daemon = subprocess.Popen(self.words("run"), env=self.environ, stdout=out, stderr=out)
        # The scanner's rules are compiled at the first start of all: until then a hook tells what it finds in files.
        until(self.is_told, 120, "the daemon is not ready")

    def is_told(self):
        """Return whether the daemon answers a start in the project with the memory."""
        answer = ask(str(self.state), "context", 5, cwd=str(self.workspace))
        return answer is not None and answer["ok"] and answer["data"]["text"]

    def __exit__(self, *_):
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(30)

    def words(self, *more):
        return [sys.executable, "-I", "-m", "memoryd", "--config", str(self.config), *more]

    def memoryd(self, *more):
        done = subprocess.run(
            self.words("--json", *more), env=self.environ, cwd=self.workspace, capture_output=True, check=False
        )
        answer = json.loads(done.stdout)
        assert answer["ok"], answer
        return answer["data"]

    def log(self):
        path = self.state / "log" / "memoryd.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def pass_weekend(self):
        """Make the transcripts as old as if a weekend had passed; memoryd has read none of them yet."""
        for path in [*self.home.glob(".codex/sessions/**/*.jsonl"), *self.home.glob(".claude/projects/**/*.jsonl")]:
            text = re.sub(r"\b20\d\d-\d\d-\d\d(?=T\d\d:)", _earlier, path.read_text(encoding="utf-8"))
            path.write_text(text, encoding="utf-8")
            written = path.stat().st_mtime - WEEKEND.total_seconds()
            os.utime(path, (written, written))

    def core(self):
        return (self.workspace / "MEMORY.md").read_text(encoding="utf-8")


def _earlier(day):
    return (date.fromisoformat(day[0]) - WEEKEND).isoformat()


class Fetched:
    """A program that was fetched, or why it could not be."""

    def __init__(self, world, agent):
        self.program = world.programs / agent.name / "node_modules" / ".bin" / agent.program
        self.folder = world.programs / agent.name
        self.folder.mkdir(exist_ok=True)
        (self.folder / "package.json").write_text("{}")
        self.environ = dict(world.environ)
        self.why = None if shutil.which("npm") else "npm is not installed"
        if self.why is None and _node_version(self.environ) < agent.node:
            kind = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
            newer = f"node-{platform.system().lower()}-{kind}"
            if not (bin_ := self.folder / "node_modules" / newer / "bin").exists():
                self._install(f"{newer}@{agent.node}")
            self.environ["PATH"] = f"{bin_}:{self.environ['PATH']}"
        if self.why is None and not self.program.exists():
            self._install(agent.package)
        self.version = "" if self.why else self._version()

    def _install(self, package):
        """With the person's own settings of npm, such as its registry."""
        npm = str(Path(shutil.which("npm")).resolve())
        command = ["node", npm, "install", "--no-audit", "--no-fund", "--loglevel=error", package]
        path = {"PATH": self.environ["PATH"]}
        done = subprocess.run(
            command, cwd=self.folder, env=os.environ | path, capture_output=True, text=True, timeout=900, check=False
        )
        if done.returncode:
            self.why = f"{package}: {(done.stderr.strip().splitlines() or ['npm failed'])[0]}"

    def _version(self):
        done = self.run("--version")
        found = re.search(r"\d+\.\d+[.\w-]*", done.stdout + done.stderr)
        if found is None:
            self.why = f"it does not say its version: {(done.stderr or done.stdout).strip()[-200:]}"
        return found[0] if found else ""

    def run(self, *words, cwd=None, **environ):
        return subprocess.run(
            [str(self.program), *words], cwd=cwd or self.folder, env=self.environ | environ, capture_output=True,
            text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def _node_version(environ):
    done = subprocess.run(["node", "--version"], env=environ, capture_output=True, text=True, check=False)
    return int(re.match(r"v(\d+)", done.stdout)[1])


class Trial:
    """One agent as a person would use it; each check says what is not as it should be by an assertion."""

    def __init__(self, world, agent, fetched, told):
        self.world, self.agent, self.fetched = world, agent, fetched
        self.told = told  # what agents before it have decided
        self.fruit = {"codex": "figs", "claude-code": "plums"}.get(agent.name, f"{agent.name}-pears")
        self.decision = f"We decided to use {self.fruit} for the cakes of Tuesday."
        # The agent's word brings in how things are; a rule only where memoryd reads that the user typed it.
        self.invoices = f"Invoices of {agent.name} are " + ("numbered by year." if agent.reads else "in books/all.csv.")
        self.server = f"{OLD_DAYS[agent.name]} server"
        self.typed = f"Where is the {self.server} now?"
        if agent.reads:
            self.typed += f" {self.decision} {self.invoices}"
        self.first = self.second = ()
        self.said = self.own = ""

    def session(self, prompt, *script, words=None):
        """Run a session, by its command line where that is another; returns the requests of it that offer tools."""
        model = self.world.model
        model.asked.clear()
        model.script.clear()
        model.script.extend(script)
        model.meanwhile = self.agent.meanwhile
        begun = len(self.world.log())
        words = words or self.agent.words(prompt, model.url)
        done = self.fetched.run(*words, cwd=self.world.workspace, **self.agent.environ(model.url))
        self.said += done.stdout + done.stderr
        assert done.returncode == 0, f"it ended with {done.returncode}: {(done.stdout + done.stderr)[-600:]}"
        failed = [line for line in self.world.log()[begun:] if line["level"] in {"warning", "error"}]
        if self.world.daemon is None:
            failed = [line for line in failed if "no daemon answers" not in str(line)]
        assert not failed, f"the log: {failed[0]}"
        asked = [request for request in model.asked if list(request.tools())]
        assert asked, "the model was asked nothing"
        return asked

    def connect(self):
        self.before = self.agent.settings(self.world)
        for name, text in self.before.items():
            path = self.world.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        made = self.world.memoryd("connect", self.agent.name, "--write")
        self.connected = {Path(one["path"]): Path(one["path"]).read_bytes() for one in made["files"]}

    def start(self):
        """The first request holds what is remembered, once, and what is found of the prompt."""
        script = []
        if self.agent.served:
            script = [
                Use("memory_search", {"query": self.server}),
                Use("memory_get", {"path": "MEMORY.md"}),
                Use("memory_save", {"text": f"The {self.agent.name} bakery opens at seven."}),
                Use("memory_update", {"append": self.invoices}),
            ]
        self.first = self.session(self.typed, *script, "All done.")
        text = self.shown()
        began = f"{OPEN}\n{LEAD}\n"
        assert began in text, "nothing is told at the start"
        if self.agent.name != "openclaw":
            assert text.count(" - Deploys happen on Mondays.\n") == 1, "it is not told once what MEMORY.md holds"

    def shown(self):
        """What the first request holds; Gemini CLI escapes what hooks give it."""
        return html.unescape("\n".join(self.first[0].strings()))

    def prompt(self):
        text = self.shown()
        found = rf"memory/2026-01-0\d\.md, lines 1-5:\n The {self.server} moved to Frankfurt\.\n"
        assert len(re.findall(found, text)) == 1, "what is remembered of the prompt is not told"

    def tools(self):
        """Each call has its answer in a request after it, and does what it is for."""
        last = list(self.first[-1].strings())
        assert not self.world.model.script, f"not called: {list(self.world.model.script)}"
        assert any('"hits"' in one and "Frankfurt" in one for one in last), "memory_search found nothing"
        assert any('"total_lines"' in one and "Deploys happen on Mondays." in one for one in last), "memory_get"
        assert f"The {self.agent.name} bakery opens at seven." in self.world.day.read_text("utf-8"), "memory_save"
        answers = [one for one in last if '"run"' in one]
        assert f"- {self.invoices}" in self.world.core(), f"memory_update: {answers}"

    def transcript(self):
        """What the person typed is read as it was typed; what was told them beside it is not theirs."""
        own = until(self.sessions, 30, "no session of it is read")
        assert len(own) == 1, f"sessions: {own}"
        self.own = own[0]["id"]
        turns = until(self.answered, 30, "its last answer is not read")
        typed = [one["text"] for one in turns if one["role"] == "user" and one["origin"] == "user"]
        assert typed == [self.typed], f"typed: {typed}"
        told = {one["origin"] for one in turns if "Kept by memoryd" in one["text"]}
        assert told == {"injected"}, f"what was told is read as said: {told}"

    def sessions(self):
        return [one for one in self.world.memoryd("session", "list") if one["format"] == self.agent.name]

    def answered(self):
        """The turns that are read of the session, once its last answer is among them."""
        turns = self.world.memoryd("session", "messages", self.own)
        return turns if any((one["role"], one["text"]) == ("assistant", "All done.") for one in turns) else []

    def written(self):
        """The end of the session is announced, and so its day and what it decided are written at once."""
        label = {"codex": "Codex", "claude-code": "Claude Code"}[self.agent.name]
        block = re.compile(rf"From {label}, [0-9:-]+, session:{self.own}")
        until(lambda: self.decision in self.world.core(), 30, "the decision is not in MEMORY.md")
        until(lambda: block.search(self.world.day.read_text("utf-8")), 30, "the day does not say whose it is")
        ended = [one for one in self.world.log() if one["event"] == "announced" and one["session"] == self.own]
        assert [one["what"] for one in ended] == ["session-end"], f"announced: {ended}"

    def next(self):
        """The next session is told what this one, and those of other agents, decided."""
        self.second = self.session("Good morning.", "Good morning to you.")
        text = "\n".join(self.second[0].strings())
        if self.agent.name == "openclaw":
            assert self.invoices in text, "its own MEMORY.md is not loaded"
        wanted = [*self.told, *([self.decision] if self.agent.reads else [])]
        missing = [one for one in wanted if one not in text]
        assert not missing, f"not told: {missing}"

    def hand_over(self):
        text = self.shown()
        assert self.told[0] in text
        said_by = r"From Codex, [0-9:-]+, session:|State of this project \([^)]*, Codex\)"
        assert re.search(said_by, text), "it is not said whose it is"

    def compacts(self):
        """A compaction is announced ahead of it, and what is remembered is told anew behind it."""
        short = Use("memory_get", {"path": "MEMORY.md"})
        script = [short, short, short._replace(tokens=self.agent.window * 9 // 10), "The door is painted.", "All done."]
        asked = self.session("We decided to paint the door of the shop green.", *script)
        text = "\n".join(asked[-1].strings())
        assert "The door is painted." in text, f"it did not compact: {[one.text()[-300:] for one in asked]}"
        assert text.count(" - Deploys happen on Mondays.\n") == 1, "it is not told once what MEMORY.md holds"

        def read():
            of = {one["id"]: self.world.memoryd("session", "messages", one["id"]) for one in self.sessions()}
            return next((id_ for id_, turns in of.items() if any("to paint" in one["text"] for one in turns)), None)

        own = until(read, 30, "its session is not read")

        def announced():
            found = [one for one in self.world.log() if one["event"] == "announced" and one["session"] == own]
            return found if len(found) > 1 else None

        what = [one["what"] for one in until(announced, 30, "its compaction or its end is not announced")]
        assert what == ["pre-compact", "session-end"], what
        until(lambda: "the door of the shop" in self.world.core(), 30, "the decision is not in MEMORY.md")

    def shared(self):
        """Where others read along nothing is told, and no tool answers."""
        words = self.agent.words_of_group(self.typed)
        asked = self.session(self.typed, Use("memory_search", {"query": self.server}), "I may not say.", words=words)
        text = "\n".join(asked[-1].strings())
        assert not self.world.model.script, f"not called: {list(self.world.model.script)}"
        assert OPEN not in text, "something is told"
        assert "memoryd answers no group" in text, "the tool is not withheld"
        assert '"hits"' not in text, "the tool answers"

    def quiet(self):
        assert "memoryd hook" not in self.said, "a hook speaks to the person"
        assert not re.search(r"(?i)hook[^\n]*(fail|error|clamp)", self.said), self.said[-600:]

    def removed(self):
        """What the agent has not changed since is as it was before, to the byte; what it has names memoryd no more."""
        alone = [path for path, data in self.connected.items() if path.read_bytes() == data]
        self.world.memoryd("connect", self.agent.name, "--remove", "--write")
        for path in self.connected:
            text = self.before.get(str(path.relative_to(self.world.home)))
            left = path.read_text("utf-8") if path.exists() else None
            assert left == text if path in alone else "memoryd" not in (left or ""), f"{path} is not as it was"


class WeekendTrial(Trial):
    """One agent whose person decides something on a Friday, while no daemon runs, and comes back on Monday."""

    def friday(self):
        self.connect()
        self.session(FRIDAY[self.agent.name], "All right, noted.")

    def weekend(self):
        """The session is written down on its own day; neither today nor yesterday has a file."""
        decided = FRIDAY[self.agent.name]
        for name in ("MEMORY.md", ".continuum/memory/RECENT.md", f"memory/{friday()}.md"):
            path = self.world.workspace / name
            until(lambda path=path: path.exists() and decided in path.read_text("utf-8"), 30, f"it is not in {name}")

    def monday(self):
        """What is told at the start holds what each program's session decided, each once, with its day."""
        if not self.agent.reads:
            self.connect()
        newer = [path.name for path in self.world.day.parent.iterdir() if path.stem > friday()]
        assert not newer, f"there is a file of a later day: {newer}"
        self.first = self.session("Good morning.", "Good morning to you.")
        text = "\n".join(re.findall(f"{OPEN}.*?</memoryd-context>", self.shown(), re.DOTALL))
        for decided in self.told:
            assert text.count(decided) == 1, f"told {text.count(decided)} times: {decided}"
            before, _, behind = text.partition(decided)
            # The day of a fact is behind it, and the day of another line is in the heading above it.
            section = re.split(r"\n(?=\S)", before)[-1] + behind.partition("\n")[0]
            days = re.findall(r"\b20\d\d-\d\d-\d\d\b", section)
            assert days[-1:] == [friday()], f"told as of {days[-1:]}: {decided}"


class FreshMachine(World):
    """A home in which programs are installed and nothing of memoryd is; its project is new as well."""

    def __init__(self, root, model):
        super().__init__(root, model)
        self.config.unlink()
        shutil.rmtree(self.workspace)
        (self.workspace / ".git").mkdir(parents=True)
        self.state = self.home / ".local" / "state" / "memoryd"

    def start(self):
        with (self.root / "daemon.out").open("wb") as out:
            self.daemon = subprocess.Popen(self.words("run"), env=self.environ, cwd=self.home, stdout=out, stderr=out)
        until(lambda: ask(str(self.state), "status", 5), 120, "the daemon is not ready")

    def words(self, *more):
        return [sys.executable, "-I", "-m", "memoryd", *more]


class InitTrial(Trial):
    """One agent on a machine that `memoryd init --yes` set up: it decides something, and was told what others did."""

    def install(self):
        for name, text in self.agent.settings(self.world).items():
            path = self.world.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def decide(self):
        self.first = self.session(self.decision, "All right, noted.")
        missing = [one for one in self.told if one not in self.shown()]
        assert not missing, f"not told: {missing}"
        core = self.world.workspace / "MEMORY.md"
        if self.agent.ends:
            self.await_core(core)

    def await_core(self, core):
        until(lambda: core.exists() and self.decision in core.read_text("utf-8"), 90, "it is not in MEMORY.md")


def friday():
    return (datetime.now().astimezone() - WEEKEND).date().isoformat()


def main(names):
    unknown = set(names) - {agent.name for agent in AGENTS}
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(agent.name for agent in AGENTS)}")
    failed, told, had = [], [], []
    with tempfile.TemporaryDirectory() as folder, ModelServer() as model:
        root = Path(folder).resolve()
        with World(root / "week", model) as world:
            world.start()
            for agent in AGENTS:
                if names and agent.name not in names:
                    continue
                fetched = Fetched(world, agent)
                if fetched.why:
                    say(agent.name, "", "fetched", f"skipped: {fetched.why}")
                    continue
                had.append(agent)
                trial = Trial(world, agent, fetched, list(told))
                failed += tried(trial)
                told += [trial.decision] if agent.reads else []
        if told:
            # memoryd sees these sessions long after their end: by default it would not write their days.
            with World(root / "weekend", model, ingest={"history": "flush"}) as world:
                failed += tried_over_weekend(world, had)
            with FreshMachine(root / "fresh", model) as world:
                failed += tried_after_init(world, had)
    return 1 if failed else 0


def tried(trial):
    """Carry out the checks of one agent; returns the names of those that failed."""
    agent = trial.agent
    checks = ["connect", "start", "prompt", *(["tools"] if agent.served else [])]
    checks += ["transcript", "written"] if agent.reads else []
    checks += ["hand_over"] if agent.name == "claude-code" and trial.told else []
    checks += ["next", *(["compacts"] if agent.window else []), *(["shared"] if agent.name == "openclaw" else [])]
    return [name for name in (*checks, "quiet", "removed") if not passed(trial, name)]


def tried_over_weekend(world, agents):
    """Let each agent decide something before a weekend, and ask all of them after it."""
    told = [FRIDAY[agent.name] for agent in agents if agent.reads]
    trials = [WeekendTrial(world, agent, Fetched(world, agent), told) for agent in agents]
    deciding = [trial for trial in trials if trial.agent.reads]
    done = [passed(trial, "friday") for trial in deciding]
    world.pass_weekend()
    world.start()
    done += [passed(trial, "weekend") for trial in deciding]
    done += [passed(trial, "monday") for trial in trials]
    return [one for one in done if not one]


def tried_after_init(world, agents):
    """Install all, run `memoryd init --yes`, and let each decide something in a session of the same project."""
    trials = [InitTrial(world, agent, Fetched(world, agent), []) for agent in agents]
    for trial in trials:
        trial.install()
    world.memoryd("init", "--yes", "--no-service")
    world.start()
    done = []
    told = []
    for trial in trials:
        trial.told = told[-1:]
        done.append(passed(trial, "decide"))
        told += [trial.decision] if trial.agent.ends else []
    return [one for one in done if not one]


def passed(trial, name):
    """Carry out a check and print how it went."""
    begun = time.monotonic()
    try:
        getattr(trial, name)()
        failure = ""
    except (AssertionError, subprocess.TimeoutExpired, AttributeError, IndexError) as error:
        failure = f"FAILED: {error or type(error).__name__}"
    say(trial.agent.name, trial.fetched.version, name, f"{failure or 'ok'} ({time.monotonic() - begun:.1f} s)")
    return not failure


def say(agent, version, check, what):
    sys.stdout.write(f"{agent:12} {version:12} {check:11} {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
