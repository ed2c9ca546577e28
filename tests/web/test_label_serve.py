"""The socket of the servers, as asyncio takes it over, and the names under which the labelling page is reached."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys

import httpx

from finegraph.graph.sample_menu import sample_menu
from finegraph.web.server import listen


def test_small_answers_are_sent_at_once():
    async def connect() -> int:
        found = asyncio.get_running_loop().create_future()

        async def answer(reader, writer):
            own = writer.get_extra_info("socket")
            found.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listen("127.0.0.1", 0) as listener:
            async with await asyncio.start_server(answer, sock=listener):
                _, writer = await asyncio.open_connection(*listener.getsockname())
                value = await asyncio.wait_for(found, 10)
                writer.close()
                return value

    assert asyncio.run(connect()) != 0


def test_the_command_serves_under_the_names_that_it_is_told(tmp_path):
    """Such as behind a proxy, which hands on the name that people typed."""
    sample_menu().write(tmp_path / "menu.csv")
    command = [sys.executable, "-m", "finegraph", "label", tmp_path / "menu.csv", "--port", "0"]
    names = ["--allow-host", "labels.example.org", "--allow-host", "Other.Example"]
    process = subprocess.Popen([*command, *names], stdout=subprocess.PIPE, text=True)
    try:
        [url] = re.findall(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        with httpx.Client(base_url=url, timeout=30) as client:
            codes = [
                client.get("/api/start", headers={"host": name}).status_code
                for name in ("labels.example.org", "labels.example.org:8443", "other.example", "evil.example")
            ]
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=30)
    assert codes == [200, 200, 200, 421]
