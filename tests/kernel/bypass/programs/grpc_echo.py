# SPDX-License-Identifier: Apache-2.0
"""grpc_echo.py serve PORT | grpc_echo.py ask HOST PORT SECONDS: unary calls and a stream of gRPC."""

import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc  # of the system's Python

NAME = "policyc.Echo"


class Echo(grpc.GenericRpcHandler):
    """Sends back what it gets, reversed."""

    def service(self, call: Any) -> Any:
        """The handler of a call."""
        if call.method == f"/{NAME}/One":
            return grpc.unary_unary_rpc_method_handler(lambda data, _: data[::-1])
        return grpc.stream_stream_rpc_method_handler(lambda all_, _: (each[::-1] for each in all_))


def serve(port: int) -> None:
    """Until it is killed."""
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((Echo(),))
    server.add_insecure_port(f"[::]:{port}")
    server.start()
    server.wait_for_termination()


def ask(host: str, port: int, seconds: float) -> None:
    """Both kinds of calls on one channel."""
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        one, stream = channel.unary_unary(f"/{NAME}/One"), channel.stream_stream(f"/{NAME}/All")
        until, n = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            data = bytes([n & 255, 7]) * (1 + 97 * n % 30000)
            if one(data, timeout=10) != data[::-1]:
                raise SystemExit(f"call {n}: another answer")
            n += 1
        sent = [bytes([at & 255]) * (1 + at * 13) for at in range(2000)]
        back = stream(_slowly(sent), timeout=60)
        if [each[::-1] for each in back] != sent:
            raise SystemExit("the stream came back as another one")
        print(n)


def _slowly(data: list[bytes]) -> Iterator[bytes]:
    for at, each in enumerate(data):
        if not at % 100:
            threading.Event().wait(0.01)
        yield each


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    ask(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
