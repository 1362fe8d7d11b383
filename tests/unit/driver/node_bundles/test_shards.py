# SPDX-License-Identifier: Apache-2.0
"""Shards here, in processes and on a Dask cluster: the same answers, order and errors."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from policyc.compiler.driver.node_bundles import shards_dask
from policyc.compiler.driver.node_bundles.shards import (
    address_of,
    map_shards,
)
from policyc.ir.diagnostics import Code, Severity
from policyc.ir.errors import HostError, InputError, InternalError
from policyc.ir.spans import Span
from tests.dask_cluster import dask_cluster
from tests.eventually import eventually

WRONG = Code("PC0000", Severity.ERROR, "wrong {what}")


def scaled(factor: int, shard: int) -> int:
    """Later shards are done first."""
    time.sleep(max(0, 5 - shard) * 0.01)
    return factor * shard


def who(shared: str, shard: int) -> int:
    return os.getpid()


def fails(shared: str, shard: int) -> int:
    if shard < 2:
        return shard
    match shared:
        case "input":
            raise InputError([WRONG.at(Span("a.yaml", 3, 1), what="field").help("mend it")])
        case "internal":
            raise InternalError("a broken invariant")
        case "host":
            raise HostError("a tool is missing", "install it")
        case _:
            os._exit(7)


def sleeps(shared: str, shard: int) -> int:
    if shard:
        time.sleep(60)
    return shard


@pytest.fixture
def executor(request: pytest.FixtureRequest) -> str:
    """The address of the cluster where the test's `where` says so; empty: none."""
    names = getattr(request.node, "callspec", None)
    is_on_cluster = names is not None and names.params.get("where") == "cluster"
    return str(request.getfixturevalue("cluster")) if is_on_cluster else ""


@pytest.fixture
def no_child_is_left(executor: str) -> Iterator[None]:
    """Checks at the end of a test that the processes it began are gone; those of a cluster stay."""
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) <= before


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a scheduler with two workers, processes of their own."""
    with dask_cluster(2) as address:
        yield address


@pytest.mark.usefixtures("no_child_is_left")
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_are_in_the_order_of_the_shards(jobs: int) -> None:
    assert list(map_shards(scaled, 3, range(20), jobs)) == [3 * i for i in range(20)]
    assert list(map_shards(scaled, 3, [], jobs)) == []


def test_a_dask_cluster_returns_the_results_in_order(cluster: str) -> None:
    assert list(map_shards(scaled, 3, range(20), executor=cluster)) == [3 * i for i in range(20)]
    pids = set(map_shards(who, "", range(20), executor=cluster))
    assert os.getpid() not in pids


def test_shards_run_in_other_processes() -> None:
    assert set(map_shards(who, "", range(3))) == {os.getpid()}
    pids = set(map_shards(who, "", range(20), 2))
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2


@pytest.mark.usefixtures("no_child_is_left")
@pytest.mark.parametrize("where", ["here", "processes", "cluster"])
def test_errors_come_back_as_they_are(where: str, executor: str) -> None:
    jobs = 2 if where == "processes" else 1
    with pytest.raises(InputError) as wrong:
        list(map_shards(fails, "input", range(5), jobs, executor))
    (finding,) = wrong.value.findings
    assert (finding.code, finding.span, finding.hint) == ("PC0000", Span("a.yaml", 3, 1), "mend it")
    with pytest.raises(InternalError, match="a broken invariant"):
        list(map_shards(fails, "internal", range(5), jobs, executor))
    with pytest.raises(HostError, match="a tool is missing") as missing:
        list(map_shards(fails, "host", range(5), jobs, executor))
    assert missing.value.hint == "install it"


@pytest.mark.usefixtures("no_child_is_left")
def test_results_before_an_error_are_given() -> None:
    results = map_shards(fails, "internal", range(50), 2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(InternalError):
        next(results)


@pytest.mark.usefixtures("no_child_is_left")
def test_a_killed_worker_is_reported() -> None:
    with pytest.raises(HostError, match="a worker process died") as ended:
        list(map_shards(fails, "exit", range(5), 2))
    assert ended.value.exit_code == 3
    assert "--jobs" in ended.value.hint


@pytest.mark.usefixtures("no_child_is_left")
def test_an_abandoned_iteration_leaves_no_process() -> None:
    results = map_shards(sleeps, "", range(5), 2)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]


def test_an_interrupt_ends_the_children(tmp_path: Path) -> None:
    (tmp_path / "sleepy.py").write_text(
        "import os, time\n"
        "def work(shared, shard):\n"
        "    open(os.path.join(shared, str(os.getpid())), 'w').close()\n"
        "    time.sleep(100)\n"
    )
    main = tmp_path / "main.py"
    main.write_text(
        "import sys, sleepy\n"
        "from policyc.compiler.driver.node_bundles.shards import map_shards\n"
        "if __name__ == '__main__':\n"
        "    list(map_shards(sleepy.work, sys.argv[1], range(4), 2))\n"
    )
    pids = tmp_path / "pids"
    pids.mkdir()
    command = [sys.executable, str(main), str(pids)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as parent:
        eventually(lambda: len(list(pids.iterdir())) == 2, "both processes work")
        os.killpg(parent.pid, signal.SIGINT)  # as Ctrl-C on a terminal
        _, errors = parent.communicate(timeout=30)
    assert parent.returncode not in (0, None)
    assert errors.count(b"KeyboardInterrupt") == 1
    for name in (path.name for path in pids.iterdir()):
        assert not Path(f"/proc/{name}").exists()


def test_a_missing_scheduler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_dask, "CONNECT_SECONDS", 1)
    with (
        socket.socket() as silent,
        pytest.raises(HostError, match=r"no Dask scheduler answers at 127\.0\.0\.1") as failed,
    ):
        silent.bind(("127.0.0.1", 0))  # held, so that no other socket listens there
        port = silent.getsockname()[1]
        list(map_shards(scaled, 1, range(3), executor=f"dask://127.0.0.1:{port}"))
    assert "dask scheduler" in failed.value.hint


def test_a_cluster_without_workers_is_reported() -> None:
    with dask_cluster(0) as executor, pytest.raises(HostError, match="has no workers"):
        list(map_shards(scaled, 1, range(3), executor=executor))


@pytest.mark.slow
def test_a_killed_worker_of_the_cluster_is_reported() -> None:
    with (
        dask_cluster(1, silence_logs=60) as executor,
        pytest.raises(HostError, match="the Dask cluster lost the work"),
    ):
        list(map_shards(fails, "exit", range(5), executor=executor))


def test_workers_of_another_release_are_not_used(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = shards_dask.versions()

    def run(client: object, function: object) -> dict[str, dict[str, str]]:
        return {"tcp://w:1": own, "tcp://w:2": {**own, "policyc": "0.0.1"}}

    monkeypatch.setattr("distributed.Client.run", run)
    words = f"tcp://w:2 has policyc 0.0.1, but this machine has {own['policyc']}"
    with pytest.raises(HostError, match=words):
        list(map_shards(scaled, 1, range(3), executor=cluster))


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(HostError, match="not installed") as missing:
        list(map_shards(scaled, 1, range(3), executor="dask://localhost:1"))
    assert "policyc[shards]" in missing.value.hint


@pytest.mark.parametrize(
    "executor",
    ["dask", "dask://", "dask://host", "dask://host:", "dask://:8786", "dask://host:0",
     "dask://host:70000", "dask://host:8786/", "tcp://host:8786", "dask://host:port"],
)  # fmt: skip
def test_an_executor_is_a_scheduler(executor: str) -> None:
    with pytest.raises(InputError, match="expected dask://HOST:PORT"):
        map_shards(scaled, 1, range(3), executor=executor)


def test_addresses() -> None:
    assert address_of("dask://localhost:8786") == ("localhost", 8786)
    assert address_of("dask://[::1]:8786") == ("[::1]", 8786)
