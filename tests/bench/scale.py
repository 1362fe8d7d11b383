# SPDX-License-Identifier: Apache-2.0
"""CPU seconds and peak memory of diff, check and list at size: `python tests/bench/scale.py [SIZE ...]`.

Every task at every size runs in a process of its own, over a cluster: N pods, N policies in three
tiers. Tasks: `one-rule` (one rule changed), `refactor` (all policies split, equal), `bug` (the
refactoring with a slip in one rule), `check` (redundant rules; "then" is finding a maximal set that may
go together), `symbolic` (the same for every cluster that could exist, proved by Z3), `list` (the
connectivity matrix, with 40 lines in words, certified). Reading comes first and is a stage of its own.
`--peer PATH` runs netpol-analyzer's `diff` on the same files beside it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scale_cases import CHANGES, TWIN, Objects, scenario, with_redundant

from policyc.compiler.frontend.garbage_collection import collector_relaxed

SIZES = (100, 1000, 5000, 10000)
CHECK, SYMBOLIC, LIST = "check", "symbolic", "list"
TASKS = (*CHANGES, CHECK, SYMBOLIC, LIST)
OUTCOMES = {"one-rule": "widened", "refactor": "equal", "bug": "widened"}
PEER_LIMIT = 3600
"""Seconds after which the peer is stopped, and the table says so."""
Stages = dict[str, dict[str, float]]


@contextmanager
def stage(name: str, stages: Stages) -> Iterator[None]:
    """Measure the body: CPU seconds, and the peak of resident memory in MB."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of what was before
    start = time.process_time()
    with collector_relaxed():
        yield
    seconds = time.process_time() - start
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    stages[name] = {"cpu_s": round(seconds, 3), "peak_mb": round(peak / 1024, 1)}


def write(folder: Path, n: int, task: str) -> None:
    """Write the two sides: `old` and `new`, each with policies and cluster."""
    policies, cluster = scenario(n)
    is_check = task not in CHANGES
    changed = with_redundant(policies) if is_check else CHANGES[task](policies)
    for side, documents in (("old", policies), ("new", changed)):
        (folder / side).mkdir()
        _dump(folder / side / "policies.yaml", documents)
        _dump(folder / side / "cluster.yaml", cluster)


def _dump(path: Path, documents: Objects) -> None:
    import yaml

    with path.open("w") as stream:
        yaml.dump_all(documents, stream, Dumper=_Plain, sort_keys=False)


def _dumper() -> type:
    import yaml

    class Plain(yaml.CSafeDumper):
        """Writes every value out: no anchors."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Plain


_Plain = _dumper()


def measure(folder: Path, task: str) -> dict[str, Any]:
    """Read the sides and compare them in this process; the stages and the result."""
    stages: Stages = {}
    answers = {CHECK: _check, SYMBOLIC: _symbolic, LIST: _list}
    return {"stages": stages, **answers.get(task, _diff)(folder, stages)}


def _diff(folder: Path, stages: Stages) -> dict[str, Any]:
    from policyc.compiler.driver.compare.sides import read_sides
    from policyc.compiler.frontend.read import ReadOptions
    from policyc.verifier.cluster.diff import Change, diff_cluster

    with stage("read", stages):
        paths = [str(folder / side / "policies.yaml") for side in ("old", "new")]
        cluster = (str(folder / "old" / "cluster.yaml"),)
        old, new = read_sides(paths[0], paths[1], ReadOptions(), cluster)
    assert old.cluster is not None
    universe = old.cluster.universe
    with stage("answer", stages):
        found = diff_cluster(
            Change(old.policies.policies, universe), Change(new.policies.policies, universe)
        )
    return {
        "outcome": found.outcome.value,
        "differences": sum(each.number for each in found.counts),
        "replayed": found.replayed,
    }


def _check(folder: Path, stages: Stages) -> dict[str, Any]:
    from policyc.compiler.driver.compile.compile import (
        Inputs,
        read_inputs,
    )
    from policyc.compiler.frontend.read import ReadOptions
    from policyc.compiler.frontend.yaml.sources import PathSource
    from policyc.verifier.cluster.reads import Reads
    from policyc.verifier.cluster.redundancy import Redundancy
    from policyc.verifier.cluster.sites import sites_of
    from policyc.verifier.cluster.space import Space

    with stage("read", stages):
        sources = [
            (PathSource(str(folder / "new" / f"{n}.yaml")),) for n in ("policies", "cluster")
        ]
        read = read_inputs(Inputs(sources[0], sources[1], ReadOptions()))
    assert read.cluster is not None
    policies, universe = read.policies.policies, read.cluster.universe
    with stage("answer", stages):
        reads = Reads.of((policies,))
        redundancy = Redundancy(Space(sites_of(universe, universe, reads), reads), policies)
        useless = redundancy.useless()
    with stage("together", stages):
        together = redundancy.together(useless)
    _all_planted(policies, useless)
    return {"outcome": "", "differences": len(useless), "removable": len(together)}


def _symbolic(folder: Path, stages: Stages) -> dict[str, Any]:
    from policyc.compiler.driver.check.answers import CheckOptions
    from policyc.compiler.driver.check.symbolic import useless_anywhere
    from policyc.compiler.frontend.read import read_policies
    from policyc.compiler.frontend.yaml.sources import PathSource

    with stage("read", stages):
        policies = read_policies([PathSource(str(folder / "new" / "policies.yaml"))]).policies
    with stage("answer", stages):
        found, _ = useless_anywhere(policies, CheckOptions(True), lambda _: None)
    if found.undecided:
        raise SystemExit(f"not decided: {found.undecided[0]}")
    _all_planted(policies, found.useless)
    counts = {"differences": len(found.useless), "removable": len(found.together)}
    return {"outcome": "", **counts, "queries": found.evidence.queries}


def _all_planted(policies: Any, useless: Any) -> None:
    """Ends the run where a policy that was made redundant is not found so."""
    planted = {u.rule.policy.name for u in useless if u.rule.policy.name.startswith(TWIN)}
    twins = {p.name for t in policies.tiers for p in t.policies if p.name.startswith(TWIN)}
    if planted != twins:
        raise SystemExit(f"redundant rules were not found: {sorted(twins - planted)}")


def _list(folder: Path, stages: Stages) -> dict[str, Any]:
    from policyc.compiler.driver.compare.listing import (
        ListOptions,
        list_cluster,
    )
    from policyc.compiler.driver.compile.compile import (
        Inputs,
        read_inputs,
    )
    from policyc.compiler.frontend.read import ReadOptions
    from policyc.compiler.frontend.yaml.sources import PathSource

    with stage("read", stages):
        sources = [
            (PathSource(str(folder / "old" / f"{n}.yaml")),) for n in ("policies", "cluster")
        ]
        read = read_inputs(Inputs(sources[0], sources[1], ReadOptions()))
    with stage("answer", stages):
        found = list_cluster(read, ListOptions(connections=500), lambda _: None)
    if found.n_connected < len({(each.src, each.dst) for each in found.connections}):
        raise SystemExit("list counts fewer pairs than it shows")
    return {"outcome": "", "differences": found.n_connected}


def in_a_process(folder: Path, task: str) -> dict[str, Any]:
    """Measure in a fresh process, so that no size affects the next."""
    command = [sys.executable, __file__, "--measure", str(folder), task]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{task}: the measurement ended with {done.returncode}")
    return dict(json.loads(done.stdout))


def run_peer(peer: str, folder: Path) -> dict[str, Any]:
    """CPU seconds and peak memory of netpol-analyzer's `diff`, reading included."""
    command = [peer, "diff", "--dir1", str(folder / "old"), "--dir2", str(folder / "new"), "-q"]
    with tempfile.TemporaryFile() as out:
        started = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        status, usage = _waited(started)
        return {
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
            "peak_mb": round(usage.ru_maxrss / 1024, 1),
            "status": status,
            "output_bytes": out.seek(0, os.SEEK_END),
        }


def _waited(started: subprocess.Popen[bytes]) -> tuple[str, resource.struct_rusage]:
    """The exit status and resources of the process, which is stopped at the time limit."""
    end = time.monotonic() + PEER_LIMIT
    while True:
        pid, status, usage = os.wait4(started.pid, os.WNOHANG)
        if pid:
            started.returncode = os.waitstatus_to_exitcode(status)
            return f"exit {started.returncode}", usage
        if time.monotonic() > end:
            started.kill()
            _, _, usage = os.wait4(started.pid, 0)
            started.returncode = -9
            return f"stopped after {PEER_LIMIT} s", usage
        time.sleep(0.01)


def row(n: int, task: str, peer: str | None) -> dict[str, Any]:
    """One line of the table."""
    with tempfile.TemporaryDirectory(prefix="policyc-scale-") as name:
        folder = Path(name)
        write(folder, n, task)
        found = {"size": n, "task": task, **in_a_process(folder, task)}
        expected = OUTCOMES.get(task)
        if expected and found["outcome"] != expected:
            raise SystemExit(f"{task} at {n}: expected {expected}, found {found['outcome']}")
        if peer and task in CHANGES:
            found["peer"] = run_peer(peer, folder)
            own = sum(part["cpu_s"] for part in found["stages"].values())
            found["peer_ratio"] = round(found["peer"]["cpu_s"] / own, 1)
        return found


HEAD = (
    "size",
    "task",
    "read s",
    "MB",
    "answer s",
    "MB",
    "then s",
    "outcome",
    "found",
    "peer s",
    "ratio",
)


def shown(found: dict[str, Any]) -> tuple[str, ...]:
    """A row as text."""
    read, answer = found["stages"]["read"], found["stages"]["answer"]
    peer = found.get("peer", {})
    return (
        str(found["size"]),
        found["task"],
        f"{read['cpu_s']:.2f}",
        f"{read['peak_mb']:.0f}",
        f"{answer['cpu_s']:.2f}",
        f"{answer['peak_mb']:.0f}",
        f"{found['stages']['together']['cpu_s']:.2f}" if "together" in found["stages"] else "",
        found["outcome"],
        str(found["differences"]),
        f"{peer['cpu_s']:.2f} ({peer['status']})" if peer else "",
        f"{found['peer_ratio']:.1f}x" if peer else "",
    )


def line(cells: tuple[str, ...]) -> str:
    """A row in columns."""
    widths = (6, 9, 7, 6, 9, 6, 7, 9, 6, 16, 6)
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def main() -> None:
    """Print each row of the table at once, and write JSON if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--task", action="append", choices=TASKS, help="only these")
    parser.add_argument("--peer", metavar="PATH", help="the binary of netpol-analyzer")
    parser.add_argument("--json", metavar="FILE", help="write the rows as JSON")
    parser.add_argument("--measure", nargs=2, metavar=("DIR", "TASK"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(Path(arguments.measure[0]), arguments.measure[1])))
        return
    rows = []
    print(line(HEAD))
    for n in arguments.sizes:
        for task in arguments.task or TASKS:
            rows.append(row(n, task, arguments.peer))
            print(line(shown(rows[-1])), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
