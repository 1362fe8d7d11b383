# SPDX-License-Identifier: Apache-2.0
"""One function over many shards: in this process, in several, or on a Dask cluster; the same answers.

Results come in the order of the shards, whichever shard finishes first. The function, the shared data
and the shards are pickled, so the function must be a module-level function. Its exceptions are raised in
the caller.
"""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from policyc.compiler.driver.codes import BAD_EXECUTOR
from policyc.ir.errors import HostError, InputError
from policyc.ir.spans import Span

Shared = TypeVar("Shared")
Shard = TypeVar("Shard")
Result = TypeVar("Result")

DASK = "dask://"
AHEAD = 2
"""Shards queued per process: enough to keep it busy, few enough to hold in memory."""
_MEMORY = "it may have run out of memory: give fewer --jobs"


def map_shards(
    function: Callable[[Shared, Shard], Result],
    shared: Shared,
    shards: Iterable[Shard],
    jobs: int = 1,
    executor: str = "",
) -> Iterator[Result]:
    """`function(shared, shard)` of every shard, in order.

    `executor` is `dask://HOST:PORT`, or empty for `jobs` processes (1: this one). Raises HostError if a
    worker ends or a cluster cannot be used, InputError for an executor of another form.
    """
    if executor:
        from policyc.compiler.driver.node_bundles.shards_dask import map_on_dask

        return map_on_dask(function, shared, shards, address_of(executor))
    if jobs == 1:
        return (function(shared, shard) for shard in shards)
    return _in_processes(function, shared, shards, jobs)


def address_of(executor: str) -> tuple[str, int]:
    """Host and port of `dask://HOST:PORT`. Raises InputError for anything else."""
    host, _, port = executor.removeprefix(DASK).rpartition(":")
    is_port = port.isascii() and port.isdecimal() and 1 <= int(port) <= 65535
    if not executor.startswith(DASK) or not host or "/" in host or not is_port:
        finding = BAD_EXECUTOR.at(Span("--executor", 0, 0), text=executor)
        raise InputError([finding.help("`dask scheduler` listens on dask://localhost:8786")])
    return host, int(port)


def _in_processes(
    function: Callable[[Shared, Shard], Result], shared: Shared, shards: Iterable[Shard], jobs: int
) -> Iterator[Result]:
    """Results from processes that end with this generator, however it ends."""
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(jobs, context, _begin, (function, shared))
    waiting: deque[Future[Result]] = deque()
    try:
        for shard in shards:
            waiting.append(pool.submit(_call, shard))
            if len(waiting) > jobs * AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as broken:
        raise HostError("a worker process died", _MEMORY) from broken
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()  # at the regular end they are idle; else their results are not wanted
            child.join()


_work: Callable[[Any], Any]
"""In a worker: the function, with the shared data."""


def _begin(function: Callable[[Any, Any], Any], shared: Any) -> None:
    """Prepare a worker; the parent handles an interrupt from the terminal, and ends its workers."""
    global _work  # a process has one task, and it is stored here
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def work(shard: Any) -> Any:
        return function(shared, shard)

    _work = work


def _call(shard: Any) -> Any:
    return _work(shard)
