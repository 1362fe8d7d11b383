# SPDX-License-Identifier: Apache-2.0
"""Flows a second of the native evaluator: `python tests/bench/native.py [SIZE ...]`.

N pods and N NetworkPolicies (tests/bench/synthetic.py). Flows are uniform: any two pods, any service;
or any two ends, most of them addresses outside. All variants give both ends' verdict words and the
verdict on the connection, and are compared with each other; times are CPU seconds of one core, the best
of several rounds that alternate. `numpy` is the same tables gathered with numpy; `python` the Decision
IR read flow by flow (`ir/lookup.py`), `semantics` the reference semantics, both on fewer flows.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from synthetic import write

from policyc.backends.llvm.batch import Flows, Verdicts, Words, words
from policyc.backends.llvm.ends import Ends
from policyc.backends.llvm.layout import Dense, segment_of_key
from policyc.backends.llvm.native import NativeEvaluator
from policyc.compiler.frontend import ReadOptions, read_policies, sources_of
from policyc.compiler.frontend.read import ClusterReading
from policyc.ir.decide import decide
from policyc.ir.lookup import end_decision
from policyc.ir.partition import partition
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.semantics import verdict
from policyc.ir.services import Service
from policyc.ir.universe import End, Flow, Universe
from policyc.ir.vocabulary import vocabulary_of

SIZES = (100, 1000, 5000)
FLOWS = 2_000_000
SLOW_FLOWS = {"python": 2000, "semantics": 40}
ROUNDS = 5
HEAD = ("policies", "ends", "compile s", "native M/s", "numpy M/s", "python M/s", "semantics M/s",
        "over numpy", "over python")  # fmt: skip


def read(folder: Path) -> tuple[PolicySet, Universe]:
    """The policies and the cluster in a folder."""
    options = ReadOptions()
    reading = ClusterReading(sources_of((str(folder / "cluster"),), sys.stdin.buffer), options)
    sources = sources_of((str(folder / "policies"),), sys.stdin.buffer)
    given = read_policies(sources, options, reading.services, reading.known)
    return given.policies, reading.finish(given.policies, given.found).universe


class Bed:
    """One size, ready to be measured."""

    def __init__(self, n: int) -> None:
        with TemporaryDirectory() as folder:
            write(n, Path(folder))
            self.policies, universe = read(Path(folder))
        start = time.process_time()
        self.decision = decide(self.policies, partition(vocabulary_of(self.policies), universe))
        self.decide_s = time.process_time() - start
        self.ends = Ends(self.decision)
        self.end_of: dict[int, End] = {}
        pods = [end for end in universe.endpoints if end.address(4)]
        for pod in pods:
            self.end_of[self._number(pod)] = pod
            address = pod.address(4)
            assert address is not None
            self.ends.hold(address, pod)
        self.pods = words(list(self.end_of))
        for first, number in self.ends.book(4):
            self.end_of.setdefault(number, IPv4Address(first))
        self.every = words(list(self.end_of))
        start = time.process_time()
        self.native = NativeEvaluator(self.decision, self.ends)
        self.compile_s = time.process_time() - start

    def _number(self, end: End) -> int:
        number = self.ends.add(end, 4)
        assert number is not None
        return number

    def flows(self, ends: Words, count: int) -> Flows:
        rng = np.random.default_rng(1)
        src, dst = (ends[rng.integers(0, len(ends), count)] for _ in range(2))
        return Flows(src, dst, words(rng.integers(0, 3 << 16, count)))

    def by_numpy(self, flows: Flows) -> Verdicts:
        """The same tables, gathered column by column."""
        layout, n_rules = self.native.layout, self.native.layout.n_rules
        leaves = layout.leaves
        assert isinstance(leaves, Dense), "the benchmark's sizes fit dense tables"
        segment = segment_of_key(leaves.starts)[flows.service]
        table = self.ends.table(layout, is_wide=False)
        src, dst = table[flows.src], table[flows.dst]
        out, into = layout.grids[Direction.EGRESS], layout.grids[Direction.INGRESS]
        egress = leaves.leaves[out.cells[src[:, 0], dst[:, 2]], segment].astype(np.uint32)
        ingress = leaves.leaves[into.cells[dst[:, 1], src[:, 3]], segment].astype(np.uint32)
        itself = (src[:, 4] == dst[:, 4]) & (src[:, 4] != 0)
        word = (n_rules + 1) << 1 | 1
        egress[itself] = ingress[itself] = word
        return Verdicts(egress, ingress, (egress & ingress & 1).astype(np.uint8))

    def _asked(self, flows: Flows) -> list[Flow]:
        columns = zip(flows.src.tolist(), flows.dst.tolist(), flows.service.tolist(), strict=True)
        return [
            Flow(self.end_of[src], self.end_of[dst], Service.from_key(key), 4)
            for src, dst, key in columns
        ]

    def by_python(self, asked: list[Flow]) -> list[bool]:
        """Both ends' rows, columns and cells, looked up in Python."""
        sides = (Direction.EGRESS, "src", "dst"), (Direction.INGRESS, "dst", "src")
        return [
            flow.src == flow.dst
            or not any(
                end_decision(
                    self.decision, side, getattr(flow, own), getattr(flow, other), flow
                ).action.is_deny
                for side, own, other in sides
            )
            for flow in asked
        ]

    def by_semantics(self, asked: list[Flow]) -> list[bool]:
        return [not verdict(self.policies, flow).action.is_deny for flow in asked]

    def measure(self, ends: Words, count: int) -> dict[str, float]:
        """Millions of flows a CPU second of each variant, which have given the same answers."""
        flows = self.flows(ends, count)
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            native = _timed(best, "native", count, lambda: self.native.verdicts(flows))
            peer = _timed(best, "numpy", count, lambda: self.by_numpy(flows))
        for mine, theirs in zip(
            (native.egress, native.ingress, native.allowed),
            (peer.egress, peer.ingress, peer.allowed),
            strict=True,
        ):
            assert (mine == theirs).all()
        for name, ask in (("python", self.by_python), ("semantics", self.by_semantics)):
            few = min(SLOW_FLOWS[name], count)
            asked = self._asked(Flows(flows.src[:few], flows.dst[:few], flows.service[:few]))
            said = _timed(best, name, few, lambda ask=ask, asked=asked: ask(asked))
            assert said == native.allowed[:few].astype(bool).tolist()
        return best

    def raw(self, count: int) -> float:
        """Millions of raw IPv4 addresses a CPU second that are turned into ends."""
        rng = np.random.default_rng(2)
        addresses = words(rng.integers(0, 1 << 32, count))
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            _timed(best, "raw", count, lambda: self.native.find4(addresses))
        return best["raw"]


def _timed(best: dict[str, float], name: str, count: int, work: Callable[[], Any]) -> Any:
    """Run once; the best rate so far, in millions a second, is kept under the name."""
    start = time.process_time()
    found = work()
    seconds = max(time.process_time() - start, 1e-9)
    best[name] = max(best.get(name, 0.0), count / seconds / 1e6)
    return found


def rows(n: int, count: int) -> list[dict[str, Any]]:
    """The measurements of one size: between pods, and between any two ends."""
    bed = Bed(n)
    compile_s = [bed.compile_s]
    for _ in range(2):
        start = time.process_time()
        NativeEvaluator(bed.decision, bed.ends)
        compile_s.append(time.process_time() - start)
    found = []
    for name, ends in (("pods", bed.pods), ("any", bed.every)):
        rates = bed.measure(ends, count)
        found.append(
            {
                "policies": n,
                "rules": bed.native.layout.n_rules,
                "ends": name,
                "n_ends": len(ends),
                "decide_s": round(bed.decide_s, 3),
                "compile_s": round(min(compile_s), 3),
                "mflows_s": {key: round(rate, 6) for key, rate in rates.items()},
                "over": {
                    key: round(rates["native"] / rates[key], 1) for key in rates if key != "native"
                },
                "raw_addresses_m_s": round(bed.raw(count), 1),
            }
        )
    return found


def shown(row: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table."""
    rates, over = row["mflows_s"], row["over"]
    return (
        str(row["policies"]), f"{row['n_ends']} {row['ends']}", f"{row['compile_s']:.2f}",
        f"{rates['native']:.1f}", f"{rates['numpy']:.1f}", f"{rates['python']:.3f}",
        f"{rates['semantics']:.4f}", f"{over['numpy']:.0f}", f"{over['python']:.0f}",
    )  # fmt: skip


def line(cells: tuple[str, ...]) -> str:
    """Cells side by side."""
    return "  ".join(
        f"{cell:>{max(11, len(head))}}" for cell, head in zip(cells, HEAD, strict=True)
    )


def main() -> None:
    """Measure, print the table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--flows", type=int, default=FLOWS, help="flows a round")
    parser.add_argument("--json", metavar="FILE", help="write the rows as JSON")
    arguments = parser.parse_args()
    measured = []
    print(line(HEAD))
    for n in arguments.sizes:
        for row in rows(n, arguments.flows):
            measured.append(row)
            print(line(shown(row)), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
