"""Access rules: the checks before every route, the headers of every answer, and the addresses of the server.

    Host       must name this server, which stops pages whose name was pointed here (DNS rebinding)
    Origin     a write from a page of another site is refused
    token      required if other machines can reach the server; sent as a header, or as a cookie by pages
    size       a body above the limit is refused before it is read, or as soon as it exceeds the limit
    headers    a strict content policy: pages load nothing from elsewhere and run no inline script or style

Programs need no Origin header. The checks cost microseconds and read no body.

A server that listens on all addresses of the machine (`0.0.0.0`, `::`) is not reached by that name but by the address
of the machine in its network. To find that address without sending a packet, the operating system is asked which one it
would send from; the destination of the lookup is an address that no machine has.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import socket
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from finegraph.errors import InputError
from finegraph.web.problems import ProblemError, problem_of

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""The headers of every answer."""
READS = ("GET", "HEAD", "OPTIONS")
_HOST = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[\w.~%!$&'()*+,;=-]*)(?::\d*)?", re.ASCII)
"""A Host header: a name or an address, and a port; no user before it."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_UNUSED_ADDRESSES = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses reserved for documentation, which no machine has."""


@dataclass(frozen=True, kw_only=True)
class Security:
    """The access rules of a server. Call `check` before listening."""

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 8000
    """The port to listen on."""
    token: str | None = None
    """The secret that every request must send; None if only this machine can reach the server."""
    hosts: tuple[str, ...] = ()
    """Further host names of the server, without ports."""
    max_bytes: int = 32 << 20
    """The largest body."""
    open_paths: tuple[str, ...] = ("/health/live", "/health/ready", "/assets/", "/shared/")
    """The paths that need no token; one that ends with a slash stands for all below it."""

    def check(self) -> None:
        """Raise if these rules would let anybody in.

        Raises:
            InputError: a public address without a token, or a token that is easily guessed.
        """
        if self.token is not None and (
            len(self.token) < 12 or not self.token.isascii() or not self.token.isprintable()
        ):
            raise InputError("token: expected at least 12 printable ASCII characters; a longer one is harder to guess")
        if self.token is None and not is_loopback(self.host):
            raise InputError(
                f"host {self.host!r}: others can reach this address, so a token is needed; give one, or listen on "
                "127.0.0.1"
            )

    @property
    def cookie(self) -> str:
        """The name of the cookie; it differs between servers on other ports of the same machine."""
        return f"finegraph_{self.port}"

    @property
    def cookie_value(self) -> str:
        """The value of the cookie: a digest, not the token itself."""
        return hashlib.sha256(f"finegraph cookie {self.token}".encode()).hexdigest()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """The checks as ASGI middleware: `app.add_middleware(Guard, security=...)`, added last so that it runs first."""

    def __init__(self, app: ASGIApp, security: Security) -> None:
        self._app, self._security = app, security
        names = {security.host, *security.hosts, *_LOOPBACK}
        if not is_loopback(security.host):
            names |= machine_names()
        self._names = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then pass it on or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        answer: Response | None = None
        try:
            self._check_host(headers)
            self._check_origin(scope["method"], headers)
            check_length(headers, self._security.max_bytes)
            answer = self._check_token(scope, headers)
        except ProblemError as problem:
            answer = problem.response()
        if answer is not None:
            await answer(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, limited(receive, self._security.max_bytes), send_with_headers)
        except Exception as error:
            if started:
                raise  # part of the answer is sent; only closing the connection can tell the client
            await problem_of(error).response()(scope, receive, send_with_headers)

    def _check_host(self, headers: Headers) -> None:
        header = headers.get("host", "")
        if _HOST.fullmatch(header) is None:
            raise ProblemError("bad-request", f"The Host header {header[:80]!r} is not a name or address with a port.")
        name = host_name(header)
        if name in self._names or (not is_loopback(self._security.host) and _is_address(name)):
            return  # DNS rebinding needs a name: an address cannot be pointed elsewhere
        raise ProblemError("host", f"The Host header names {name[:80]!r}, which this server is not called.")

    @staticmethod
    def _check_origin(method: str, headers: Headers) -> None:
        if method in READS:
            return  # browsers do not let other sites read the answer
        origin = headers.get("origin")
        foreign = origin is not None and _origin_host(origin) != headers.get("host", "").lower()
        if foreign or headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise ProblemError(
                "origin", f"The Origin header is {str(origin)[:80]!r}; only pages of this server may do this."
            )

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """None if the request is allowed; else the answer: a redirect that sets the cookie, or the sign-in page."""
        security, path = self._security, scope["path"]
        if security.token is None or any(_covers(entry, path) for entry in security.open_paths):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), security.token):
            return None
        if _same(_cookie(headers.get("cookie", ""), security.cookie), security.cookie_value):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] == "GET" and _same(dict(query).get("token", ""), security.token):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            answer = RedirectResponse("/" + path.lstrip("/") + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(security.cookie, security.cookie_value, httponly=True, samesite="strict")
            return answer
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return _sign_in(wrong="token" in dict(query))
        raise ProblemError("token", "The token is missing or wrong.", {"www-authenticate": "Bearer"})


def _sign_in(*, wrong: bool) -> Response:
    """The page that asks for the token, with a warning after a wrong one."""
    page = (files("finegraph.web") / "shared" / "sign_in.html").read_text(encoding="utf-8")
    warning = '<p role="alert"><strong>That token is wrong.</strong> Try again.</p>\n    <form'
    return HTMLResponse(page.replace("<form", warning, 1) if wrong else page, 401)


def check_length(headers: Headers, max_bytes: int) -> None:
    """Raise if the length of a request is above the limit."""
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > max_bytes:
        raise ProblemError("too-large", _too_large(max_bytes))


def limited(receive: Receive, max_bytes: int) -> Receive:
    """Receive a body and refuse it as soon as it exceeds the limit, whatever length it declared."""
    left = max_bytes

    async def receive_limited() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise ProblemError("too-large", _too_large(max_bytes))
        return message

    return receive_limited


def host_name(header: str) -> str:
    """The name in a Host header, without its port and in lower case."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _origin_host(origin: str) -> str | None:
    """The host and port of an Origin header; None if it has none, as for pages opened from a file."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _covers(entry: str, path: str) -> bool:
    return path.startswith(entry) if entry.endswith("/") else path == entry


def _same(given: str, expected: str) -> bool:
    """Compare in constant time, so that the time taken does not reveal how much was right."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _cookie(header: str, name: str) -> str:
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return morsel.value if morsel is not None else ""


def _too_large(max_bytes: int) -> str:
    return f"Expected at most {max_bytes / 2**20:.3g} MB in one request, got more."


def reachable(host: str, port: int) -> list[str]:
    """The addresses of a server as people type them, the one for other machines first.

    Args:
        host: the address that it listens on.
        port: its port.
    """
    if not _is_wildcard(host):
        return [_address(host, port)]
    families = (socket.AF_INET6, socket.AF_INET) if ":" in host else (socket.AF_INET,)
    addresses = [address for family in families if (address := _own_address(family)) is not None]
    loopback = "::1" if ":" in host else "127.0.0.1"
    return [_address(name, port) for name in dict.fromkeys([*addresses, loopback])]


def machine_names() -> set[str]:
    """The names of this machine: its host name, and `NAME.local`."""
    name = socket.gethostname().lower()
    return {name, f"{name.partition('.')[0]}.local"}


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _own_address(family: socket.AddressFamily) -> str | None:
    """The address that this machine would send from; None if it has no route to others."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_UNUSED_ADDRESSES[family], 9))  # sends no packet: this only looks up the route
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
