"""The shipped units under a real systemd, started in namespaces of its own: `make systemd`, which needs root."""

import dataclasses
import os
import shutil
import signal
import subprocess

import pytest
from scratch import Scratch, said, until

from memoryd import config
from memoryd.interfaces import service as services

SYSTEMD = "/lib/systemd/systemd"
NAME = "memoryd-tried"  # a unit of the machine's own may have the usual name
NEEDED = all(map(shutil.which, (SYSTEMD, "unshare", "nsenter", "systemctl"))) and os.getuid() == 0
pytestmark = [
    pytest.mark.systemd,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not NEEDED, reason="needs systemd, unshare, nsenter and root"),
]
# What would touch the machine's own files or devices is masked; /run is new, so nothing of it is the machine's.
MASKED = (
    "systemd-tmpfiles-setup.service", "systemd-tmpfiles-setup-dev.service", "systemd-tmpfiles-clean.timer",
    "systemd-udevd.service", "systemd-udev-trigger.service", "systemd-remount-fs.service", "systemd-sysctl.service",
    "systemd-random-seed.service", "systemd-update-utmp.service", "e2scrub_reap.service", "cron.service",
    "getty.target", "timers.target",
)  # fmt: skip
BOOT = (
    "mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && "
    + " && ".join(f"ln -s /dev/null /run/systemd/system/{unit}" for unit in MASKED)
    + f" && export container=test && exec {SYSTEMD} --system --unit=multi-user.target"
)


class Manager:
    """A system manager in its own namespaces of processes, mounts, names and control groups."""

    def __init__(self):
        spaces = ("--mount", "--pid", "--fork", "--mount-proc", "--cgroup", "--uts", "--ipc", "--kill-child")
        self.process = subprocess.Popen(
            ["unshare", *spaces, "/bin/sh", "-c", BOOT],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        until(lambda: self.first() and "running" in self.run("is-system-running").stdout, why="systemd has started")

    def first(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:  # noqa: PTH123
            return file.read().split()[:1]

    def run(self, *arguments, user=False, command=("systemctl",)):
        inside = ["nsenter", "-t", *self.first(), "-m", "-p", "-u", "-i", "-C"]
        name = ["env", "XDG_RUNTIME_DIR=/run/user/0"] if user else []
        whose = ["--user"] if user else []
        return subprocess.run(
            [*inside, *name, *command, *whose, *arguments], capture_output=True, text=True, timeout=90, check=False
        )

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def manager():
    made = Manager()
    try:
        made.run("start", "user@0.service")
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("is_user", [False, True], ids=["system", "user"])
def test_a_unit_reads_writes_memory_starts_again_after_a_crash_and_stops_in_order(tmp_path, manager, is_user):
    scratch = Scratch(tmp_path / "scratch", scrub={"secrets": "redact"}, ingest={"history": "flush"})
    scratch.append(said())
    settings = config.load(scratch.config)
    planned = services.plan_service(settings, launchd=False, system=not is_user)
    services.install(dataclasses.replace(planned, path=tmp_path / "memoryd.service"), settings)
    target = f"/run/systemd/{'user' if is_user else 'system'}/{NAME}.service"
    copy = 'mkdir -p "$(dirname "$2")" && cp "$1" "$2"'
    manager.run("-c", copy, "sh", str(tmp_path / "memoryd.service"), target, command=("/bin/sh",))

    def ask(*arguments):
        return manager.run(*arguments, user=is_user).stdout.strip()

    def value(name):
        return ask("show", "-p", name, "--value", NAME)

    ask("daemon-reload")
    ask("start", NAME)
    assert (value("ActiveState"), value("StatusText").startswith("ready: 1 agent")) == ("active", True)
    assert scratch.run("job", "run", "sleep", "--force").returncode == 0
    assert "Makefiles" in scratch.core

    first = value("MainPID")
    manager.run("-9", first, command=("kill",))
    until(lambda: value("MainPID") not in {"0", first} and value("ActiveState") == "active", why="it starts again")
    assert (value("NRestarts"), "all agree" in scratch.run("verify").stdout) == ("1", True)
    ask("reload", NAME)
    ask("stop", NAME)
    assert (value("ActiveState"), value("Result")) == ("inactive", "success")
    told = "".join(path.read_text(encoding="utf-8") for path in (scratch.state / "log").iterdir())
    assert ("configuration reloaded" in told, "worker died" in told) == (True, False)

    scratch.write_config(nonsense=1)
    ask("start", NAME)
    until(lambda: value("ActiveState") == "failed", why="a configuration that is wrong")
    assert value("NRestarts") == "0", "a start could only fail again"
