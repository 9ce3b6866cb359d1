"""Each act of the admin page by its control in a real Chromium, with what it changes in files, rows and audit."""

import shutil

import pytest
from admin_world import PLANTED, audited, make, served
from scratch import filler, message, said, until

from memoryd import config
from memoryd.requests import jobs_by_hand

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


class Tab:
    """A page that is logged in; each act is pressed, and its result is read from the page."""

    def __init__(self, scratch, page, link):
        self.scratch, self.page = scratch, page
        self.base = link.partition("/enter")[0]
        page.goto(link)
        page.wait_for_url(self.base + "/")

    def press(self, path, name, *, within="main", fields=(), ticks=()):
        """Open a path unless it is None, fill in fields by their names, press a button; what the page says then."""
        if path is not None:
            self.page.goto(self.base + path)
        form = self.page.locator(within)
        for label, value in dict(fields).items():
            field = form.locator(f"[name={label}]:not([type=hidden])").first
            if field.evaluate("one => one.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        for label in ticks:
            form.get_by_label(label).check()
        form.get_by_role("button", name=name, exact=True).first.click()
        self.page.wait_for_selector(".told")
        told = self.page.locator(".told").first
        assert told.get_attribute("class") == "told ok", told.inner_text()
        return self.page.locator("main").inner_text()

    def one(self, sql, *values):
        return self.scratch.query(sql, *values)[0][0]

    def run_of(self, kind, state="succeeded"):
        sql = "SELECT id FROM job_run WHERE kind = ? AND state = ? ORDER BY created_at DESC LIMIT 1"
        until(lambda: self.scratch.query(sql, kind, state), why=f"a {kind} is {state}")
        return self.one(sql, kind, state)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    sync_api = pytest.importorskip("playwright.sync_api")
    scratch = make(tmp_path_factory.mktemp("acts") / "s")
    with served(scratch) as link, sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield Tab(scratch, browser.new_page(), link())
        browser.close()


def acts_of(tab):
    return [operation for operation, actor, _ in audited(tab.scratch, "admin %") if actor.startswith("admin:")]


def memory_of(tab, text):
    return tab.one("SELECT id FROM memory WHERE content LIKE ? ORDER BY deleted_at IS NOT NULL LIMIT 1", f"%{text}%")


def test_acts_on_memories(tab):
    core, third = memory_of(tab, PLANTED["core"]), memory_of(tab, "plain third")
    tab.press("/agent/demo/memories", f"protect {core}")
    assert tab.one("SELECT constitutional FROM memory WHERE id = ?", core) == 1
    tab.press(f"/agent/demo/memory/{core}", "unprotect")
    assert tab.one("SELECT constitutional FROM memory WHERE id = ?", core) == 0
    tab.press(f"/agent/demo/memory/{third}", "Good")
    tab.press(f"/agent/demo/memory/{third}", "Save", fields={"text": "plain third line, edited"})
    assert "- plain third line, edited\n" in tab.scratch.core
    tab.press(f"/agent/demo/memory/{third}", "Delete")
    assert "plain third" not in tab.scratch.core
    tab.press("/agent/demo/memories?ended=1", f"Restore {third}")
    assert "- plain third line, edited\n" in tab.scratch.core
    tab.press("/agent/demo/dreams", "Add", fields={"text": "an unsure line that is true"})
    assert "- an unsure line that is true\n" in tab.scratch.core
    wanted = {"protect", "unprotect", "edit", "delete", "restore"}
    assert {f"admin memory {verb}" for verb in wanted} | {"admin feedback", "admin append"} <= set(acts_of(tab))
    tab.page.goto(f"{tab.base}/agent/demo/memories?q=norvantic")
    assert PLANTED["daily"] in tab.page.locator("main").inner_text()


@pytest.mark.browser
def test_acts_on_facts_and_the_profile(tab):
    path = "/agent/demo/facts"
    add = "form:has(input[value=add])"
    tab.press(path, "Add", within=add, fields={"content": "they like tea", "category": "preference"})
    fact = memory_of(tab, "they like tea")
    tab.page.goto(tab.base + path)
    tab.page.locator("tr", has_text=fact).locator("summary").click()
    row = f"tr:has-text('{fact}')"
    tab.press(None, "Save", within=row, fields={"content": "they like coffee", "category": "goal"})
    assert tab.scratch.query("SELECT content, category FROM memory WHERE id = ?", fact) == [
        ("they like coffee", "goal")
    ]
    tab.page.goto(tab.base + path)
    with tab.page.expect_download() as download:
        tab.page.get_by_role("link", name="Export facts and profile").click()
    exported = download.value.path().read_text(encoding="utf-8")
    assert "they like coffee" in exported
    tab.press(path, f"Delete {fact}")
    assert tab.one("SELECT deleted_at IS NOT NULL FROM memory WHERE id = ?", fact) == 1
    brought = exported.replace("they like coffee", "they like cocoa")
    tab.press(path, "Import", within="form:has(input[value=import])", fields={"text": brought})
    assert memory_of(tab, "they like cocoa")
    tab.press(path, "Save personal", within="form:has(input[value=personal])", fields={"text": "has a dog"})
    assert tab.one("SELECT text FROM profile_section WHERE section = 'personal'") == "has a dog"
    wanted = {"admin fact add", "admin fact edit", "admin fact delete", "admin fact import", "admin export facts"}
    assert wanted | {"admin profile"} <= set(acts_of(tab))


@pytest.mark.browser
def test_acts_on_jobs_and_runs(tab):
    form = "form[action='/act/job']"
    for kind in ("sleep", "dream", "dedup", "refine"):
        shown = tab.press("/agent/demo", "Run", within=form, fields={"kind": kind}, ticks=("Force", "Dry run"))
        assert "nothing was written" in shown
        assert "Dry run" in shown
    assert "started" in tab.press("/agent/demo", "Run", within=form, fields={"kind": "refine", "mode": "strict"})
    tab.press("/agent/demo", "Import", within="form[action='/act/import']")
    tab.run_of("history")
    tab.press("/agent/demo", "Pause")
    assert tab.one("SELECT paused FROM agent") == 1
    tab.press("/", "Resume demo")
    edited = memory_of(tab, "plain third")
    tab.press(f"/agent/demo/memory/{edited}", "Save", fields={"text": "third line, to be taken back"})
    run = tab.run_of("edit")
    assert "Preview of the rollback" in tab.press(f"/run/{run}", "Preview a rollback")
    assert "to be taken back" in tab.scratch.core
    tab.press(f"/run/{run}", f"Roll back the change of {edited}")
    assert "to be taken back" not in tab.scratch.core
    tab.press(f"/agent/demo/memory/{edited}", "Save", fields={"text": "third line, to be taken back"})
    tab.press(f"/run/{tab.run_of('edit')}", "Roll back")
    assert "to be taken back" not in tab.scratch.core
    entry = tab.one("SELECT max(id) FROM audit WHERE memory_id = ?", edited)
    tab.press(f"/agent/demo/memory/{edited}", "Save", fields={"text": "third line, after the entry"})
    tab.press("/time?agent=demo", f"Preview going back to entry {entry}")
    assert "after the entry" in tab.scratch.core
    tab.press(None, "Roll back now")
    assert "after the entry" not in tab.scratch.core
    wanted = {"admin job dream", "admin job refine", "admin import", "admin pause pause", "admin pause resume"}
    assert wanted | {"admin rollback"} <= set(acts_of(tab))
    assert tab.scratch.json("verify")["ok"]


def test_a_queued_run_is_cancelled(tab):
    (run,) = jobs_by_hand.queue_job(config.load(tab.scratch.config), "dedup", "demo")
    assert tab.one("SELECT state FROM job_run WHERE id = ?", run) == "queued"
    tab.press(f"/run/{run}", "Cancel")
    assert tab.one("SELECT state FROM job_run WHERE id = ?", run) == "cancelled"
    assert [name for *_, name in audited(tab.scratch, "admin cancel")] == [f"access:act:{run}"]


@pytest.mark.browser
def test_what_runs_propose_is_rejected_and_accepted(tab):
    scratch, before = tab.scratch, tab.scratch.config.read_text(encoding="utf-8")
    scratch.write_config(modes=scratch.settings["modes"] | {"sleep": "propose"})
    dailies = scratch.dailies()
    moved = message("user", "We decided to move the archive to Reykjavik in October because the lease in Malmo ends.")
    for name, told, button, ended in (("two", said(), "Reject", "declined"), ("three", [moved], "Accept", "succeeded")):
        scratch.append([*told, filler()], name)
        scratch.run("run", "--once")
        session = tab.one("SELECT id FROM session WHERE native_id LIKE ?", f"{name}%")
        scratch.json("job", "run", "sleep", "--session", session, "--force")
        run = tab.run_of("sleep", "proposed")
        assert scratch.dailies() == dailies
        tab.press(f"/run/{run}", button)
        until(
            lambda run=run, ended=ended: tab.one("SELECT state FROM job_run WHERE id = ?", run) == ended,
            why=f"{run} is {ended}",
        )
        assert (scratch.dailies() == dailies) is (button == "Reject")
        assert audited(scratch, f"admin answer {button.lower()}")[-1][2] == f"access:act:{run}"
    scratch.config.write_text(before, encoding="utf-8")


@pytest.mark.browser
def test_a_setting_is_shown_as_a_diff_and_then_written(tab):
    before = tab.scratch.config.read_text(encoding="utf-8")
    row = "form:has(input[value='refine.trigger_tokens'])"
    tab.press("/settings", "Show the change of refine.trigger_tokens", within=row, fields={"value": "9000"})
    assert "9000" in tab.page.locator("main pre").inner_text()
    assert tab.scratch.config.read_text(encoding="utf-8") == before
    tab.press(None, "Write it")
    assert "9000" in tab.scratch.config.read_text(encoding="utf-8")
    assert acts_of(tab)[-1] == "admin setting"
