"""A light HTTP load generator for `benchmarks/serve.py`: requests as ready bytes over connections that stay open.

It shares the cores with the server, so it does as little as it can: no library, no parsing beyond status and length.
Sending at a rate does not wait for answers: a request is due when it is due, and its time counts from then.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


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
            low = self.data[:end].lower() + b"\r\n"
            place = low.index(b"content-length:") + 15
            self._size = end + 4 + int(low[place : low.index(b"\r\n", place)])
        if self._size and len(self.data) >= self._size and self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


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
    """Requests at a rate, whatever becomes of those before; the answers, and how many were sent per second."""

    async def run() -> tuple[list[Answer], float]:
        idle: list[Connection] = []
        found: list[Answer] = []

        async def one(number: int, due: float) -> None:
            nonlocal last
            last = time.perf_counter()
            connection = idle.pop() if idle else Connection(port)
            found.append(await connection.send(request(number), due))
            idle.append(connection)

        start = last = time.perf_counter()
        tasks = []
        for number in range(int(rate * seconds)):
            due = start + number / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(one(number, due)))
            if not number % 8:
                await asyncio.sleep(0)  # also where it is late: they are to be sent, and answers read
        await asyncio.gather(*tasks)
        for connection in idle:
            connection.close()
        return found, len(tasks) / max(last - start, seconds)

    return asyncio.run(run())


def top_of(body: bytes) -> dict[str, float]:
    """The probabilities of an answer's labels, of the fine label and of every kind."""
    (photo,) = json.loads(body)["photos"]
    found = {f"fine={answer['label']}": answer["probability"] for answer in photo["top"]}
    for kind, answers in photo["kinds"].items():
        found.update({f"{kind}={answer['label']}": answer["probability"] for answer in answers})
    return found
