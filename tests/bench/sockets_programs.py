# SPDX-License-Identifier: Apache-2.0
"""Real programs through a bed of sockets.py: a server, a client, and a count of the answers.

CPU time is that of both programs and of the kernel's thread for packets, between two moments: after the
connections may have been added to the bypass, and some seconds later.
"""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from datapath_beds import PORT, Bed
from datapath_http import CONFIGURATION

SECONDS = 4
ENOUGH = 1000
"""Answers in that time; fewer would mean that the client has ended."""
PATIENCE = 10.0


@dataclass(frozen=True)
class Program:
    """`server` and `client` are commands; `asked` asks the server how many requests it has answered."""

    title: str
    server: Callable[[Path], list[str]]
    client: Callable[[str], list[str]]
    asked: list[str]
    pattern: str
    warm: int


def _nginx(folder: Path) -> list[str]:
    path = folder / "nginx.conf"
    path.write_text(CONFIGURATION.format(folder=folder, port=PORT, body=64 * "x"))
    return ["nginx", "-c", str(path), "-p", str(folder)]


def _redis(folder: Path) -> list[str]:
    words = ["redis-server", "--port", str(PORT), "--bind", "*", "--protected-mode", "no"]
    return [*words, "--save", "", "--dir", str(folder), "--loglevel", "warning"]


def _ab(*words: str) -> Callable[[str], list[str]]:
    return lambda address: [
        *("ab", "-q", *words, "-n", "2000000", f"http://{address}:{PORT}/"),
    ]


def _wrk(address: str) -> list[str]:
    return ["wrk", "-t", "1", "-c", "8", "-d", "3600s", f"http://{address}:{PORT}/"]


def _redis_benchmark(pipeline: int) -> Callable[[str], list[str]]:
    return lambda address: [
        *("redis-benchmark", "-h", address, "-p", str(PORT), "-t", "get", "-c", "4", "-q"),
        *("-P", str(pipeline), "-n", "1000000000", "-d", "64"),
    ]


_COUNT = ["curl", "-s", f"http://127.0.0.1:{PORT}/count"], r"^\s*\d+\s+\d+\s+(\d+)\s*$"
_INFO = ["redis-cli", "-p", str(PORT), "info", "stats"], r"total_commands_processed:(\d+)"
PROGRAMS = {
    "ab": Program("nginx and ab, a connection for each", _nginx, _ab("-c", "1"), *_COUNT, 1),
    "ab-kept": Program("nginx and ab, one connection", _nginx, _ab("-c", "1", "-k"), *_COUNT, 4),
    "wrk": Program("nginx and wrk, 8 connections", _nginx, _wrk, *_COUNT, 4),
    "redis": Program("Redis, 4 connections", _redis, _redis_benchmark(1), *_INFO, 4),
    "redis-16": Program("Redis, 16 in a pipeline", _redis, _redis_benchmark(16), *_INFO, 4),
}


def request_ns(
    folder: Path,
    bed: Bed,
    way: str,
    warm: int,
    cpu: int,
    softirq: int,
    join: Callable[[], None],
) -> float:
    """Nanoseconds of CPU for a request, after so many seconds. `join` runs first in each program."""
    program = PROGRAMS[way]
    with ExitStack() as held:
        server = held.enter_context(_running(bed.server, program.server(folder), cpu, join))
        _answered(bed, program, 0)
        client = held.enter_context(_running(bed.client, program.client(bed.asked[4]), cpu, join))
        _answered(bed, program, 100)
        time.sleep(min(program.warm, warm))
        pids = (server, client)
        begun = _count(bed, program), sum(map(_spent, pids)) + _spent_by(softirq)
        time.sleep(SECONDS)
        ended = _count(bed, program), sum(map(_spent, pids)) + _spent_by(softirq)
    if ended[0] - begun[0] < ENOUGH:
        raise SystemExit(f"{bed.name}, {program.title}: {ended[0] - begun[0]} answers")
    return (ended[1] - begun[1]) / (ended[0] - begun[0])


def _answered(bed: Bed, program: Program, n: int) -> None:
    """Wait until the server has answered more requests than that."""
    deadline = time.monotonic() + PATIENCE
    while _count(bed, program) <= n:
        if time.monotonic() > deadline:
            raise SystemExit(f"{bed.name}, {program.title}: no answers")
        time.sleep(0.05)


def _count(bed: Bed, program: Program) -> int:
    """-1: no answer yet."""
    words = ["nsenter", f"--net={bed.server}", *program.asked]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    found = re.search(program.pattern, said, re.MULTILINE)
    return int(found[1]) if found else -1


@contextmanager
def _running(
    namespace: Path, words: list[str], cpu: int, join: Callable[[], None]
) -> Iterator[int]:
    """The pid of the program: nsenter and taskset become it."""
    whole = ["nsenter", f"--net={namespace}", "taskset", "-c", str(cpu), *words]
    with subprocess.Popen(
        whole, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=join
    ) as started:
        try:
            yield started.pid
        finally:
            started.kill()


def _spent(pid: int) -> int:
    """Nanoseconds on a CPU, of all threads."""
    return sum(_of(path) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def _spent_by(thread: int) -> int:
    return _of(Path(f"/proc/{thread}/schedstat"))


def _of(path: Path) -> int:
    """The first number of the scheduler's account."""
    return int(path.read_text().split()[0])
