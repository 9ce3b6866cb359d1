"""Serve the pages: authenticate users, add the headers of every answer, and choose the function for each path.

`Door` first checks the host, the origin and the rate of every request. Then comes the check of the session. For a
change, the token of its form is checked as well. Pages, acts and charts run in a thread as the person of the session,
and the audit names the page.
"""

import asyncio
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memoryd import config
from memoryd.admin import acts, pages
from memoryd.admin.links import DEFAULT, LINK_SECONDS, BrowserSession, Sessions
from memoryd.admin.pages import PAGES, Look, Page
from memoryd.config import Settings
from memoryd.config_values import is_loopback
from memoryd.counted import count_noun
from memoryd.errors import MemorydError, NotFoundError
from memoryd.files.log import get_logger
from memoryd.requests import access, lists
from memoryd.requests.access import Person
from memoryd.requests.rate import Bucket
from memoryd.requests.views import PersonView

LARGEST_BODY = 2 * 1024 * 1024
MOST_STREAMS = 24
LIVE_SECONDS = 2.0
UNUSED_SECONDS = LINK_SECONDS + 30
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Without a referrer, a browser would not send the origin of a form either.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_IMAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


class Door:
    """Wrap the application and pass only requests for this host, from its own pages, and not too many.

    The checks come before everything else, so even a missing page or a failure is never shown to an unknown origin. The
    check of the host stops DNS rebinding, and that of the origin stops forms of other sites. Each answer gets the
    security headers here, so no page can omit them.
    """

    def __init__(self, inner: ASGIApp, settings: Settings) -> None:
        address = settings.admin.listen or DEFAULT
        names = [address, settings.admin.host or address]
        if is_loopback(address):
            names += [f"{name}:{address.rpartition(':')[2]}" for name in ("127.0.0.1", "localhost", "[::1]")]
        self._hosts = {name.lower() for name in names}
        self._inner = inner
        # The limit counts all clients together, so that a flood of requests costs this process little.
        self._all = Bucket(400, 100.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with the reason for the refusal."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        status, why = self._refuse(scope, Headers(raw=scope.get("headers", [])))

        async def send_sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(raw=message["headers"])
                for name, value in _HEADERS.items():
                    answered.setdefault(name, value)
                message["headers"] = answered.raw
            await send(message)

        if status:
            await PlainTextResponse(why, status)(scope, receive, send_sealed)
            return
        await self._inner(scope, receive, send_sealed)

    def _refuse(self, scope: Scope, headers: Headers) -> tuple[int, str]:
        """Return the status and the reason of a refusal, or status 0 if the request may pass."""
        if scope["type"] != "http":
            return 403, "only http is spoken here"
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "this is another host"
        origins = headers.getlist("origin")
        if any(urlsplit(one).netloc.lower() != hosts[0].lower() for one in origins) or len(origins) > 1:
            return 403, "requests of this origin are not answered"
        if scope["method"] not in {"GET", "HEAD"}:
            if not origins and headers.get("sec-fetch-site") != "same-origin":
                return 403, "a change comes from a form of this page"
            length = headers.get("content-length", "")
            if not length.isdecimal() or int(length) > LARGEST_BODY:
                return 413, "the form is too long, or of unknown length"
        return (0, "") if self._all.take() else (429, "too many requests: wait a second")


class Server:
    """Answer requests for pages, acts, charts, the live stream, and the links and passphrases of users.

    `pages.py` makes each page in a thread, as the person of the session. So the audit names the person and the page for
    each read. The settings are read again when their file changes. A changed privacy or a removed user counts from the
    next request on.
    """

    def __init__(self, source: Path, since: float | None = None) -> None:
        """Read the configuration, and read it again whenever its file changes.

        One-time links from before `since` are refused.
        """
        self._source = source
        self._mark: tuple[int, int] | None = None
        self.settings: Settings = self._load()
        self.sessions = Sessions(since)
        self._unused_since = time.monotonic()
        self._streams = 0
        self._log = get_logger(part="admin")
        self._checks = asyncio.Semaphore(2)  # a check of a passphrase takes 64 MB of memory
        self._templates = Environment(loader=PackageLoader("memoryd.admin"), autoescape=True, trim_blocks=True)
        self._templates.filters["count"] = count_noun
        self._cookie = "memoryd_" + hashlib.sha256((self.settings.admin.listen or DEFAULT).encode()).hexdigest()[:8]

    def _load(self) -> Settings:
        """Return the settings, read again if the file has changed. A file with an error changes nothing."""
        status = self._source.stat()
        mark = (status.st_mtime_ns, status.st_size)
        if mark != self._mark:
            with suppress(*([MemorydError] if self._mark else [])):  # an invalid file leaves the old settings in force
                self.settings = config.load(self._source)
            self._mark = mark
        return self.settings

    def is_unused(self, now: float) -> bool:
        """Return True if nobody has been logged in for longer than a one-time link is valid."""
        if not self.sessions.is_empty():
            self._unused_since = now
        return now - self._unused_since > UNUSED_SECONDS

    def build(self) -> ASGIApp:
        """Return the application, wrapped in `Door`."""
        routes = [
            Route("/enter/{link}", self.enter),
            Route("/login", self.log_in, methods=["GET", "POST"]),
            Route("/logout", self.log_out, methods=["POST"]),
            Route("/act/{act}", self._require_session(self.act), methods=["POST"]),
            Route("/live", self._require_session(self.live)),
            Route("/chart/{agent}/{chart}.svg", self._require_session(self.chart)),
            Route("/agent/{agent}/facts.json", self._require_session(self.export)),
            *(Route(page.path, self._require_session(partial(self._show, page))) for page in PAGES),
            Mount("/static", StaticFiles(packages=[("memoryd.admin", "static")])),
        ]
        app = Starlette(routes=routes, exception_handlers={404: self._answer_missing, 500: self._answer_failure})
        return Door(app, self.settings)

    # --- who it is --------------------------------------------------------------------------------------------------

    def _session(self, request: Request) -> BrowserSession | None:
        """Return the session of a request, or None.

        A user whom the configured proxy names gets a session at once.
        """
        admin = self.settings.admin
        found = self.sessions.find(request.cookies.get(self._cookie))
        if admin.proxy is None or request.client is None or request.client.host != admin.proxy:
            return found
        name = request.headers.get(admin.proxy_header, "")
        user = next((one for one in admin.users if one.name == name), None)
        if user is None:
            return None
        if found is not None and found.person.name == name:
            return found
        request.state.opened = self.sessions.begin(Person(name, is_here=False, owns=user.owner))
        return self.sessions.find(request.state.opened)

    def _keep(self, request: Request, response: Response, session: str | None = None) -> Response:
        """Set the cookie of the session in an answer.

        No script can read the cookie, and browsers do not send it from other sites.
        """
        name = session or getattr(request.state, "opened", None)
        if name is not None:
            secure = self.settings.admin.tls_certificate is not None
            response.set_cookie(self._cookie, name, httponly=True, samesite="strict", secure=secure)
        return response

    async def enter(self, request: Request) -> Response:
        """Open a session by a one-time link, or explain why the link is not valid."""
        name = self.sessions.enter(self._load(), request.path_params["link"])
        if name is None:
            allowed = self.sessions.may_try()
            why = "This link was used, is too old, or was never made. memoryd admin makes a new one."
            return self._page("login.html", 403 if allowed else 429, why=why, users=self._has_users())
        # The browser would count a redirect as part of another site's navigation and not send the cookie.
        response = self._page("entered.html", 200)
        response.headers["refresh"] = "0; url=/"
        return self._keep(request, response, name)

    async def log_in(self, request: Request) -> Response:
        """Show the form for a passphrase, or check a passphrase and open a session."""
        if request.method == "GET" or not self._has_users():
            return self._page("login.html", 200 if request.method == "GET" else 403, users=self._has_users())
        if not self.sessions.may_try():
            return self._page("login.html", 429, why="Too many tries: wait a minute.", users=True)
        async with request.form(max_files=0) as form:
            given = {name: str(value) for name, value in form.items()}
        async with self._checks:
            name = await run_in_threadpool(
                self.sessions.log_in, self._load(), given.get("name", "")[:100], given.get("passphrase", "")[:1000]
            )
        if name is None:
            self._log.warning("a passphrase was wrong")
            return self._page("login.html", 403, why="The name or the passphrase is wrong.", users=True)
        return self._keep(request, RedirectResponse("/", 303), name)

    def _has_users(self) -> bool:
        """Return True if people may log in with a passphrase."""
        return any(user.passphrase for user in self.settings.admin.users)

    async def log_out(self, request: Request) -> Response:
        """End the session of a request whose form carries the session's token."""
        session = self._session(request)
        async with request.form(max_files=0) as form:
            if session is None or not _is_equal(str(form.get("csrf", "")), session.csrf):
                return self._page("login.html", 403, users=self._has_users())
        self.sessions.close(request.cookies.get(self._cookie))
        return self._keep(request, RedirectResponse("/login", 303), "ended")

    # --- pages ------------------------------------------------------------------------------------------------------

    def _page(self, template: str, status: int, /, **values: Any) -> HTMLResponse:
        """Render a template."""
        return HTMLResponse(self._templates.get_template(template).render(pages=PAGES, **values), status)

    def _require_session(
        self, answer: Callable[[Request, BrowserSession], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a function that answers only requests with a session, and not too many."""

        async def answer_session(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return self._page("login.html", 401, users=self._has_users())
            if not session.allowance.take():
                return PlainTextResponse("too many requests: wait a second", 429)
            return self._keep(request, await answer(request, session))

        return answer_session

    async def _show(self, page: Page, request: Request, session: BrowserSession) -> Response:
        """Answer with a page that is made in a thread."""
        return await run_in_threadpool(self._render, page, self._look(request, session, page.title), session)

    def _look(self, request: Request, session: BrowserSession, title: str) -> Look:
        """Return the person's view of this page, with the path and the query."""
        view = PersonView(self._load(), session.person._replace(page=title))
        return Look(view, request.path_params, request.query_params)

    def _render(self, page: Page, look: Look, session: BrowserSession) -> Response:
        """Render a page for a person. A refusal or a missing object becomes an error page."""
        with access.act_as(look.view.person):
            active: list[dict[str, Any]] = []
            try:
                active = access.list_active(look.view.settings)
                data, status, template = page.make(look), 200, page.template
            except MemorydError as error:
                status = 404 if isinstance(error, NotFoundError) else 403
                data, template = {"why": pages.describe_error(look.view, error)}, "message.html"
        told, session.told = session.told, []
        shown, session.shown = session.shown, {}
        response = self._page(
            template, status, page=page, person=look.view.person, csrf=session.csrf, told=told, shown=shown,
            active=active, agents=look.view.settings.agents, query=look.query, zone=look.view.settings.zone,
            here=_here(look), has_fleet=look.view.settings.fleet.database is not None,
            refine=look.view.settings.refine, **data,
        )  # fmt: skip
        # The browser loads the page again when the access that it was shown by ends.
        if active:
            response.headers["refresh"] = str(min(one["left"] for one in active) + 1)
        return response

    async def chart(self, request: Request, session: BrowserSession) -> Response:
        """Answer with a chart as an SVG image."""
        headers = {"content-security-policy": _IMAGE_POLICY}
        look = self._look(request, session, "chart")
        return await run_in_threadpool(_make_file, look, pages.draw, "image/svg+xml", headers)

    async def export(self, request: Request, session: BrowserSession) -> Response:
        """Answer with the facts of an agent as a file."""
        headers = {"content-disposition": 'attachment; filename="facts.json"'}
        look = self._look(request, session, "Facts and profile")
        return await run_in_threadpool(_make_file, look, acts.export_facts, "application/json", headers)

    async def act(self, request: Request, session: BrowserSession) -> Response:
        """Carry out the act of a form, and return the person to the page of that form."""
        async with request.form(max_files=0, max_fields=50, max_part_size=LARGEST_BODY) as given:
            form: dict[str, str] = {}
            for name, value in given.multi_items():
                form[name] = f"{form[name]} {value}" if name in form else str(value)
        if not _is_equal(form.get("csrf", ""), session.csrf):
            return PlainTextResponse("this form is not of this session: load the page again", 403)
        name, back = request.path_params["act"], form.get("back", "/")
        if name not in acts.ACTS:
            return PlainTextResponse("there is no such act", 404)
        view = PersonView(self._load(), session.person._replace(page=name))
        if acts.ACTS[name].is_long and form.get("dry") != "1":
            threading.Thread(target=self._carry_out, args=(name, view, form, session), daemon=True).start()
            session.told.append(("ok", "It was started. The page Runs shows how it goes."))
        else:
            await run_in_threadpool(self._carry_out, name, view, form, session)
        return RedirectResponse(back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/", 303)

    def _carry_out(self, name: str, view: PersonView, form: dict[str, str], session: BrowserSession) -> None:
        """Carry out an act, and keep its message for the next page."""
        with access.act_as(view.person):
            try:
                agent = acts.find_owner(view, name, form)
                told = ("ok", acts.carry_out(name, acts.Order(view, agent, form, session.shown)))
            except MemorydError as error:
                plain = acts.ACTS[name].is_plain
                told = ("error", str(error) if plain else pages.describe_error(view, error))
            except (KeyError, ValueError, IndexError):
                told = ("error", "a value of the form is not valid")
        session.told.append(told)

    async def live(self, request: Request, session: BrowserSession) -> Response:
        """Stream changes: context usage of the agents, the open accesses, and new records of the log."""
        if self._streams >= MOST_STREAMS:
            return PlainTextResponse("close other pages", 503)
        view = PersonView(self._load(), session.person._replace(page="live"))
        log = request.query_params.get("log") == "1"

        async def stream() -> AsyncIterator[str]:
            self._streams += 1
            try:
                newest = ""
                while self.sessions.find(request.cookies.get(self._cookie)) is session:
                    told = await run_in_threadpool(_measure, view, newest if log else None)
                    newest = told.pop("newest", newest)
                    yield f"data: {json.dumps(told)}\n\n"
                    await asyncio.sleep(LIVE_SECONDS)
            finally:
                self._streams -= 1

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def _answer_missing(self, _request: Request, _error: Exception) -> Response:
        return PlainTextResponse("there is no such page", 404)

    async def _answer_failure(self, _request: Request, error: Exception) -> Response:
        self._log.error("a page failed", error_type=type(error).__name__)
        return PlainTextResponse("the page failed: memoryd logs says more", 500)


def _make_file(look: Look, make: Callable[[Look], str], media_type: str, headers: dict[str, str]) -> Response:
    """Answer with a file for a person, or with the reason for its absence."""
    with access.act_as(look.view.person):
        try:
            return Response(make(look), media_type=media_type, headers=headers)
        except MemorydError as error:
            status = 404 if isinstance(error, NotFoundError) else 403
            return PlainTextResponse(pages.describe_error(look.view, error), status)


def _measure(view: PersonView, newest: str | None) -> dict[str, Any]:
    """Return the data of a live page. With `newest`, add the records of the log after that time."""
    with access.act_as(view.person):
        told: dict[str, Any] = {}
        with suppress(MemorydError):
            agents = lists.read_fills(view.settings)
            told["fill"] = {name: f"{fill:.0%}" for name, fill in agents.items() if fill is not None}
        told["access"] = [f"{row['id']}:{row['state']}" for row in access.list_active(view.settings)]
        if newest is not None:
            found = [one for one in lists.read_log(view.settings, limit=50) if str(one.get("at") or "") > newest]
            told["log"] = pages.show_records(view, found)[::-1] if newest else []
            told["newest"] = max((str(one.get("at") or "") for one in found), default=newest) or "0"
        return told


def _here(look: Look) -> str:
    """Return the id of the agent that the page is about, or an empty string."""
    named = look.place.get("agent") or look.query.get("agent")
    return next((agent.id for agent in look.view.settings.agents if agent.id == named), "")


def _is_equal(one: str, other: str) -> bool:
    """Compare two tokens in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


def serve(
    source: Path, ready: Callable[[str], None] = lambda _address: None, listener: tuple[int, float] | None = None
) -> None:
    """Serve the page until a signal stops the process, and call `ready` with the address.

    `listener` has an open socket, and the time since which one-time links may have been made for it. With it, the
    process ends when the page has not been used for a while.
    """
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class ImpatientProtocol(H11Protocol):
        """Close a connection that has sent no request for a while."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(15, lambda: transport.close() if self.cycle is None else None)

    class Serving(uvicorn.Server):
        """End when nobody uses the page, if another process starts it again at the next request."""

        async def on_tick(self, counter: int) -> bool:
            is_over = listener is not None and server.is_unused(time.monotonic())
            return await super().on_tick(counter) or is_over

    server = Server(source, None if listener is None else listener[1])
    settings = server.settings
    address = settings.admin.listen or DEFAULT
    host, _, port = address.rpartition(":")
    options = uvicorn.Config(
        server.build(), host=host.strip("[]"), port=int(port), http=ImpatientProtocol, ws="none", lifespan="off",
        access_log=False, log_config=None, log_level="critical", server_header=False, proxy_headers=False,
        limit_concurrency=1000, timeout_keep_alive=15, timeout_graceful_shutdown=2,
        ssl_certfile=settings.admin.tls_certificate, ssl_keyfile=settings.admin.tls_key,
    )  # fmt: skip
    ready(address)
    Serving(options).run(None if listener is None else [socket.socket(fileno=listener[0])])
