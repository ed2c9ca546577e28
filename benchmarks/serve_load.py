"""A light HTTP load generator for `benchmarks/serve.py`: requests as ready bytes over connections that stay open.

It shares the cores with the server, so it does as little as it can: no library, no parsing beyond status and length.
Sending at a rate does not wait for answers: a request is due when it is due, and its time counts from then.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

_BURST = 0.004
"""How often requests at a rate are sent and their answers read, in seconds."""


class Answer(NamedTuple):
    """One answer: status (0 where the connection broke), seconds since it was due, and its body."""

    status: int
    seconds: float
    body: bytes


def multipart(photos: Sequence[bytes], fields: Iterable[tuple[str, str]], path: str = "/v1/predict") -> bytes:
    """A whole request as bytes."""
    mark = b"finegraph-benchmark"
    parts = []
    for number, content in enumerate(photos):
        head = f'Content-Disposition: form-data; name="photo"; filename="{number}.jpg"\r\n\r\n'
        parts.append(b"--" + mark + b"\r\n" + head.encode() + content + b"\r\n")
    for name, value in fields:
        head = f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        parts.append(b"--" + mark + b"\r\n" + head.encode())
    body = b"".join(parts) + b"--" + mark + b"--\r\n"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary={mark.decode()}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Cut(bytes):
    """A request after which the client ends its side of the connection, such as one that lacks its end."""


class _Wire(asyncio.Protocol):
    """One connection, and the answer that is awaited on it."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.data, self._size = b"", 0
        self._waiting: asyncio.Future[None] | None = None

    async def ask(self, request: bytes) -> bytes:
        """Send a request; the whole answer."""
        self.data, self._size = b"", 0
        if self.transport is None:
            raise ConnectionError("closed")
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        if isinstance(request, Cut):
            self.transport.write_eof()
        await self._waiting
        return self.data

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when it is open."""
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Called when it is closed."""
        self.transport = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("closed"))

    def data_received(self, data: bytes) -> None:
        """Called with what has come."""
        self.data += data
        if not self._size and (end := self.data.find(b"\r\n\r\n")) >= 0:
            self._size = end + 4 + content_length(self.data[: end + 2])
        if self._size and len(self.data) >= self._size and self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def content_length(head: bytes) -> int:
    """The length that the head of an answer tells."""
    low = head.lower()
    place = low.index(b"content-length:") + 15
    return int(low[place : low.index(b"\r\n", place)])


class Connection:
    """A connection that stays open, and is opened again where the server closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._wire: _Wire | None = None

    async def send(self, request: bytes, due: float) -> Answer:
        """Send a request and read its answer; status 0 where the connection broke.

        The server may close a connection that was idle. So a request is sent once more where an earlier one went over
        the same connection and no byte of an answer has come; anything else that breaks is a failure.
        """
        while True:
            used, wire = self._wire is not None, self._wire or _Wire()
            try:
                if not used:
                    await asyncio.get_running_loop().create_connection(lambda wire=wire: wire, "127.0.0.1", self._port)
                    self._wire = wire
                head, _, body = (await wire.ask(request)).partition(b"\r\n\r\n")
                if b"\r\nconnection: close" in head.lower() or isinstance(request, Cut):
                    self.close()
                return Answer(int(head[9:12]), time.perf_counter() - due, body)
            except (OSError, ValueError):
                self.close()
                if not used or wire.data or isinstance(request, Cut):
                    return Answer(0, time.perf_counter() - due, b"")

    def close(self) -> None:
        """Close it."""
        if self._wire is not None and self._wire.transport is not None:
            self._wire.transport.close()
        self._wire = None


def closed_loop(
    port: int,
    requests: Callable[[int], bytes | None],
    connections: int,
    *,
    bodies: bool = True,
    found: list[tuple[int, Answer]] | None = None,
) -> list[tuple[int, Answer]]:
    """So many clients that each send the next request when they have an answer; until there is none.

    Args:
        port: where the server listens.
        requests: the request of a number; None when there are no more.
        connections: how many clients.
        bodies: whether the contents of answers are kept.
        found: where answers are put, so that they are there also when this is stopped half-way.
    """
    answers = [] if found is None else found

    async def run() -> None:
        number = 0

        async def client() -> None:
            nonlocal number
            connection = Connection(port)
            while (request := requests(number)) is not None:
                mine, number = number, number + 1
                answer = await connection.send(request, time.perf_counter())
                answers.append((mine, answer if bodies else answer._replace(body=b"")))
            connection.close()

        await asyncio.gather(*(client() for _ in range(connections)))

    asyncio.run(run())
    return answers


def open_loop(port: int, request: Callable[[int], bytes], rate: float, seconds: float) -> tuple[list[Answer], float]:
    """Requests at a rate, whatever becomes of those before; the answers, and how many were sent per second.

    Requests are sent and answers read every few milliseconds: waking for each would take from the server, on the same
    cores, more than refusing it does. The time of an answer counts from when its request was due, to when it was read.
    """
    flood = _Flood(port, request)
    try:
        return flood.run(rate, int(rate * seconds)), flood.sent / max(flood.last - flood.start, seconds)
    finally:
        flood.close()


class _Line:
    """One connection of a flood: what is still to be sent, and what has come."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.number, self.due, self.used = -1, 0.0, False
        self.left, self.data, self.size = memoryview(b""), b"", 0


class _Flood:
    """Many connections in one thread without tasks: a tenth of what asyncio costs."""

    def __init__(self, port: int, request: Callable[[int], bytes]) -> None:
        self.port, self.request = port, request
        self.found: list[Answer] = []
        self.sent, self.start, self.last = 0, 0.0, 0.0
        self._ready = selectors.DefaultSelector()
        self._idle: list[_Line] = []
        self._busy = 0

    def run(self, rate: float, count: int) -> list[Answer]:
        """Send so many; return when all are answered, or at the latest a minute after the last."""
        self.start = self.last = time.perf_counter()
        while True:
            now = time.perf_counter()
            while self.sent < count and self.start + self.sent / rate <= now:
                self.last = time.perf_counter()
                self._ask(self.sent, self.start + self.sent / rate)
                self.sent += 1
            if self.sent == count and not self._busy:
                return self.found
            if now - self.last > 60:
                break
            for key, event in self._ready.select(0):
                line: _Line = key.data
                if event & selectors.EVENT_WRITE:
                    self._write(line)
                if event & selectors.EVENT_READ:
                    self._read(line)
            time.sleep(max(0.0, now + _BURST - time.perf_counter()))
        self.found += [Answer(0, 60.0, b"")] * self._busy
        return self.found

    def close(self) -> None:
        """Close all connections."""
        for key in list(self._ready.get_map().values()):
            key.data.socket.close()
        self._ready.close()

    def _ask(self, number: int, due: float) -> None:
        if self._idle:
            line = self._idle.pop()
        else:
            line = _Line(self.port)
            self._ready.register(line.socket, selectors.EVENT_READ, line)
        self._busy += 1
        line.number, line.due = number, due
        line.left, line.data, line.size = memoryview(self.request(number)), b"", 0
        self._write(line)

    def _write(self, line: _Line) -> None:
        waited = len(line.left) < len(self.request(line.number))
        try:
            line.left = line.left[line.socket.send(line.left) :]
        except BlockingIOError:
            pass
        except OSError:
            self._broken(line)
            return
        if line.left:
            self._ready.modify(line.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, line)
        elif waited:
            self._ready.modify(line.socket, selectors.EVENT_READ, line)

    def _read(self, line: _Line) -> None:
        try:
            data = line.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._broken(line)
            return
        line.data += data
        if not line.size and (end := line.data.find(b"\r\n\r\n")) >= 0:
            line.size = end + 4 + content_length(line.data[: end + 2])
        if line.size and len(line.data) >= line.size and line.number >= 0:
            self._end(line, int(line.data[9:12]))
            line.used = True
            if b"\r\nconnection: close" in line.data[: line.data.find(b"\r\n\r\n")].lower():
                self._drop(line)
            else:
                self._idle.append(line)

    def _broken(self, line: _Line) -> None:
        """A connection that was idle may be closed; its request is sent once more, over a new one."""
        number, due, again = line.number, line.due, line.used and not line.data
        busy = number >= 0
        self._drop(line)
        if not busy:
            self._idle.remove(line)
        elif again:
            self._busy -= 1
            self._ask(number, due)
        else:
            self._end(line, 0)

    def _end(self, line: _Line, status: int) -> None:
        self.found.append(Answer(status, time.perf_counter() - line.due, b""))
        self._busy -= 1
        line.number = -1

    def _drop(self, line: _Line) -> None:
        self._ready.unregister(line.socket)
        line.socket.close()


def top_of(body: bytes) -> dict[str, float]:
    """The probabilities of an answer's labels, of the fine label and of every kind."""
    (photo,) = json.loads(body)["photos"]
    found = {f"fine={answer['label']}": answer["probability"] for answer in photo["top"]}
    for kind, answers in photo["kinds"].items():
        found.update({f"{kind}={answer['label']}": answer["probability"] for answer in answers})
    return found
