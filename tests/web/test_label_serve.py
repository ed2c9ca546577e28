"""The socket of the servers, as asyncio takes it over."""

import asyncio
import socket

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
