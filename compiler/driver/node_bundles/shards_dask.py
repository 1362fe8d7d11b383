# SPDX-License-Identifier: Apache-2.0
"""Shards on a Dask cluster (dask.distributed), whose workers have this release of policyc installed.

A scheduler runs any code that a client sends: it belongs on a trusted network.
"""

import platform
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from importlib import metadata
from typing import Any, TypeVar

from policyc.ir.errors import HostError

Shared = TypeVar("Shared")
Shard = TypeVar("Shard")
Result = TypeVar("Result")

CONNECT_SECONDS = 10
_INSTALL = "pip install 'policyc[shards]'"
_SAME = "install the same release of policyc, with the extra `shards`, and of Python on all workers"


def map_on_dask(
    function: Callable[[Shared, Shard], Result],
    shared: Shared,
    shards: Iterable[Shard],
    address: tuple[str, int],
) -> Iterator[Result]:
    """`function(shared, shard)` of every shard on the cluster at (host, port), in order.

    Raises HostError if there is no scheduler or worker, or workers have another release.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError as missing:
        raise HostError("dask.distributed is not installed", _INSTALL) from missing
    client = _connected(Client, address)
    try:
        _check_workers(client)
        everywhere = client.scatter(shared, broadcast=True, hash=False)
        futures = [client.submit(function, everywhere, shard, pure=False) for shard in list(shards)]
        for future in futures:
            yield future.result()
            future.release()
    except (KilledWorker, CancelledError, OSError) as lost:
        hint = "a worker may have run out of memory: the logs of scheduler and workers say why"
        raise HostError(f"the Dask cluster lost the work: {lost}", hint) from lost
    finally:
        client.close()  # shards that are still queued are forgotten on the cluster


def _connected(client: Callable[..., Any], address: tuple[str, int]) -> Any:
    host, port = address
    where = f"tcp://{host}:{port}"
    try:
        return client(where, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as failure:
        hint = "start one with `dask scheduler`, or check the address"
        raise HostError(f"no Dask scheduler answers at {host}:{port}", hint) from failure


def _check_workers(client: Any) -> None:
    """Workers unpickle our data: another release might interpret it differently."""
    try:
        found = client.run(versions)
    except (ImportError, AttributeError) as failure:
        raise HostError("the workers of the Dask cluster have no policyc", _SAME) from failure
    if not found:
        hint = "start workers with `dask worker HOST:PORT`"
        raise HostError("the Dask cluster has no workers", hint)
    own = versions()
    for worker, theirs in sorted(found.items()):
        for name, version in own.items():
            if theirs.get(name) != version:
                shown = f"{name} {theirs.get(name)}, but this machine has {version}"
                raise HostError(f"the Dask worker {worker} has {shown}", _SAME)


def versions() -> dict[str, str]:
    """The versions that must be the same on both ends."""
    found = {name: metadata.version(name) for name in ("policyc", "distributed")}
    return {**found, "Python": platform.python_version()}
