# SPDX-License-Identifier: Apache-2.0
"""asyncio_echo.py serve PORT | asyncio_echo.py ask HOST PORT SECONDS: asyncio streams."""

import asyncio
import random
import struct
import sys
import time

LENGTH = struct.Struct("!I")


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send each message back, reversed."""
    while head := await reader.read(1):
        (size,) = LENGTH.unpack(head + await reader.readexactly(3))
        writer.write(LENGTH.pack(size) + (await reader.readexactly(size))[::-1])
        await writer.drain()
    writer.close()


async def ask(host: str, port: int, seconds: float, seed: int) -> int:
    """Messages of random sizes, for so long; how many."""
    chance, until, n = random.Random(seed), time.monotonic() + seconds, 0
    reader, writer = await asyncio.open_connection(host, port)
    while time.monotonic() < until:
        data = chance.randbytes(chance.choice((1, 100, 5000, 70000)))
        writer.write(LENGTH.pack(len(data)) + data)
        await writer.drain()
        (size,) = LENGTH.unpack(await reader.readexactly(4))
        if await reader.readexactly(size) != data[::-1]:
            raise SystemExit(f"message {n}: another answer")
        n += 1
    writer.write_eof()
    if await reader.read():
        raise SystemExit("data after the last answer")
    return n


async def main() -> None:
    """As the module says."""
    if sys.argv[1] == "serve":
        server = await asyncio.start_server(answer, None, int(sys.argv[2]))
        await server.serve_forever()
    host, port, seconds = sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    print(sum(await asyncio.gather(*(ask(host, port, seconds, seed) for seed in range(4)))))


asyncio.run(main())
