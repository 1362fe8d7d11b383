# SPDX-License-Identifier: Apache-2.0
"""A Dask cluster on this machine. Few tests need one, and to import Dask takes half a second."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def dask_cluster(n_workers: int, **options: Any) -> Iterator[str]:
    """The address, as `--executor` has it, of a scheduler with so many workers of one thread each."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", **options
    ) as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")
