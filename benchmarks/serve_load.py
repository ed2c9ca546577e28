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


class Connection(asyncio.Protocol):
    """A connection that stays open, and is opened again where it broke."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._transport: asyncio.Transport | None = None
        self._data, self._size, self._waiting = b"", 0, None

    async def send(self, request: bytes, due: float) -> Answer:
        """Send a request and read its answer."""
        for _ in range(2):  # the server may close a connection that was idle
            try:
                loop = asyncio.get_running_loop()
                if self._transport is None:
                    await loop.create_connection(lambda: self, "127.0.0.1", self._port)
                self._data, self._size, self._waiting = b"", 0, loop.create_future()
                self._transport.write(request)
                await self._waiting
                head, _, body = self._data.partition(b"\r\n\r\n")
                if b"\r\nconnection: close" in head.lower():
                    self.close()
                return Answer(int(head[9:12]), time.perf_counter() - due, body)
            except OSError:
                self.close()
        return Answer(0, time.perf_counter() - due, b"")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when it is open."""
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Called when it is closed."""
        self._transport = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("closed"))

    def data_received(self, data: bytes) -> None:
        """Called with what has come."""
        self._data += data
        if not self._size and (end := self._data.find(b"\r\n\r\n")) >= 0:
            low = self._data[:end].lower() + b"\r\n"
            place = low.index(b"content-length:") + 15
            self._size = end + 4 + int(low[place : low.index(b"\r\n", place)])
        if self._size and len(self._data) >= self._size and not self._waiting.done():
            self._waiting.set_result(None)

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()
        self._transport = None


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


def open_loop(port: int, request: Callable[[int], bytes], rate: float, seconds: float) -> list[Answer]:
    """Requests at a rate, whatever becomes of those before."""

    async def run() -> list[Answer]:
        idle: list[Connection] = []
        found: list[Answer] = []

        async def one(number: int, due: float) -> None:
            connection = idle.pop() if idle else Connection(port)
            found.append(await connection.send(request(number), due))
            idle.append(connection)

        start = time.perf_counter()
        tasks = []
        for number in range(int(rate * seconds)):
            due = start + number / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(one(number, max(due, time.perf_counter()))))
        await asyncio.gather(*tasks)
        for connection in idle:
            connection.close()
        return found

    return asyncio.run(run())


def top_of(body: bytes) -> dict[str, float]:
    """The probabilities of an answer's labels, of the fine label and of every kind."""
    (photo,) = json.loads(body)["photos"]
    found = {f"fine={answer['label']}": answer["probability"] for answer in photo["top"]}
    for kind, answers in photo["kinds"].items():
        found.update({f"{kind}={answer['label']}": answer["probability"] for answer in answers})
    return found
