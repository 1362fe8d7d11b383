# SPDX-License-Identifier: Apache-2.0
"""The benchmark between two nodes runs, and each bed sends packets by the path in its name."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from policyc.runtime.endpoints.forwarding import Forwarding
from policyc.runtime.kernel.per_cpu import per_cpu_sums
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.lab.children import call
from policyc.runtime.lab.namespaces import remove_stale_labs
from policyc.runtime.maps.xdp import XdpCounts
from tests.kernel.support.two_nodes import _routed

Stand = Callable[[Forwarding, bool], list[int]]

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = pytest.mark.kernel


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, str(BENCH / "across.py"), *words]
    return subprocess.run(asked, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_traffic_gets_through_every_bed(tmp_path: Path) -> None:
    remove_stale_labs()
    out = tmp_path / "rows.json"
    short = ["--rounds", "2", "--policies", "3", "--services", "3", "--share", "0.01"]
    done = _run(*short, "--json", str(out))
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["rows"]
    beds = {(row["group"], row["bed"]) for row in rows}
    assert len(beds) == 8 + 5 + 7 + 11
    ways = ("udp", "request", "connect", "http", "stream")
    assert {(row["family"], row["way"]) for row in rows} == {*product((4, 6), ways)}
    assert len(rows) == 2 * len(ways) * len(beds)
    assert all(len(row["ratios"]) == 2 and row["cpu_ns"] > 0 for row in rows)
    assert all(row["ratio"] == 1 for row in rows if row["bed"] == "plain routing")
    assert remove_stale_labs() == ()
    again = _run("--table", str(out))
    assert again.stdout == done.stdout
    lines = again.stdout.splitlines()
    n_goals = len([line for line in lines if line.endswith(("| met |", "| not met |"))])
    assert n_goals == 2 * (2 * 3 + 6 * 4), "two beds between pods, six from outside"
    n_lines = 2 + 4 + len(beds) + 2 + 3 + n_goals
    assert len([line for line in lines if line.startswith("|")]) == n_lines


@pytest.fixture
def stood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Stands one bed from a pod to a pod, asks over UDP, and says what the nodes' stacks forwarded."""
    monkeypatch.syspath_prepend(str(BENCH))
    import across_beds
    import across_site
    import datapath

    datapath.built(tmp_path)

    def stand(forward: Forwarding, allowed: bool) -> list[int]:
        way = across_beds.TO_POD
        peer = way.peer if allowed else across_site.OUTSIDE
        bundle = across_beds.compiled(tmp_path / forward, way._replace(peer=peer), 3)
        with ExitStack() as held:
            site = held.enter_context(across_site.two_nodes())
            across_beds.ours(bundle, "ab", forward, site)
            at = {4: str(way.asked.ipv4)}
            bed = across_beds.Bed(forward, site.at[way.client], site.at[way.server], at, way.port)
            datapath.operation(tmp_path, bed, (4, "udp"), 0.01)
            return [call(lambda: _routed(4), namespace=site.at[node]) for node in "ab"]

    return stand


@pytest.mark.slow
def test_the_fast_path_bed_bypasses_the_stacks_of_both_nodes(stood: Stand) -> None:
    """A bed that takes another path would measure something else."""
    assert all(n < 10 for n in stood("redirect", True))
    assert all(n >= 2 * 200 for n in stood("stack", True))


@pytest.mark.slow
@pytest.mark.parametrize("is_finished", [True, False])
def test_xdp_forwards_packets_with_complete_checksums_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_finished: bool
) -> None:
    """Packets without a complete checksum go to tc. With them, the XDP bed would measure tc."""
    monkeypatch.syspath_prepend(str(BENCH))
    import across_beds
    import across_site
    import datapath

    datapath.built(tmp_path)
    way = across_beds.TO_NODE_PORT
    bundle = across_beds.compiled(tmp_path / "xdp", across_beds.STRAIGHT, 3)
    with across_site.two_nodes(straight=True) as site:
        if is_finished:
            site.finish_checksums()
        services = across_beds.node_port()
        across_beds.ours(bundle, "ab", "redirect", site, services, "dsr", "auto")
        at = {4: str(way.asked.ipv4)}
        bed = across_beds.Bed("xdp", site.at[way.client], site.at[way.server], at, way.port)
        datapath.operation(tmp_path, bed, (4, "udp"), 0.01)
        pins = Pins(site.bpffs / "policyc-a")
        handed = sum(requests for requests, _ in per_cpu_sums(pins.map(XdpCounts.NAME)))
    assert handed > 150 if is_finished else handed < 5


@pytest.mark.slow  # test_bench_datapath.py has it for the same operation
def test_traffic_that_does_not_get_through_ends_the_benchmark(stood: Stand) -> None:
    """A bed that drops must not be the fastest of all."""
    with pytest.raises(SystemExit, match="redirect, udp: pingpong: no answer"):
        stood("redirect", False)
