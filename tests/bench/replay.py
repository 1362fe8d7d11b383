# SPDX-License-Identifier: Apache-2.0
"""The rate of `policyc replay`: `python tests/bench/replay.py [FLOWS [LINES]]`.

FLOWS (10 million) random flows between 1000 pods under 1000 policies, as columns: the time to find the
different ones and to evaluate them. LINES (200,000) of each format: records read and placed a second.
"""

import json
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from synthetic import write

from policyc.compiler.driver.compile.compile import Read, read_inputs
from policyc.compiler.driver.compile.inputs import Inputs
from policyc.compiler.driver.replay.states import states_of
from policyc.compiler.frontend import PathSource, ReadOptions
from policyc.compiler.frontend.observed.columns import ObservedColumns
from policyc.compiler.frontend.observed.placing import Placing
from policyc.compiler.frontend.observed.reading import FORMATS, ObservedFile, read_observed
from policyc.compiler.frontend.observed.records import EndRecord, FlowRecord, ServiceRecord

PODS, PORTS = 1000, 200


def read(folder: Path) -> Read:
    """The policies and the cluster of the bench."""
    write(PODS, folder)
    policies, cluster = PathSource(str(folder / "policies")), PathSource(str(folder / "cluster"))
    return read_inputs(Inputs((policies,), (cluster,), ReadOptions()))


def columns_of(placing: Placing, names: list[str], n_flows: int) -> ObservedColumns:
    """Random flows; each end and service is resolved as a reader resolves it."""
    columns = ObservedColumns(placing)
    for at, name in enumerate(names):
        end = EndRecord(*name.split("/"))
        columns.add(FlowRecord(end, end, ServiceRecord("tcp", 8000 + at % PORTS)), at)
    random = np.random.default_rng(1)
    flows = columns.flows
    for column, n in ((flows.src, len(names)), (flows.dst, len(names)), (flows.asked, PORTS)):
        column.frombytes(random.integers(0, n, n_flows, dtype=np.uint32).tobytes())
    flows.lines.frombytes(bytes(4 * n_flows))
    columns.counts.extend(array("Q", bytes(8 * n_flows)))
    columns.denied.extend(bytes(n_flows))
    columns.seen.extend(bytes(n_flows))
    return columns


def lines_of(form: str, names: list[str], n: int) -> Iterator[str]:
    """Lines of a format, each another pair of ends."""
    if form == "csv":
        yield "src,dst,protocol,port,count"
    for at in range(n):
        src, dst = names[at % len(names)], names[at * 7 % len(names)]
        one, other, port = src.split("/"), dst.split("/"), 8000 + at % PORTS
        match form:
            case "csv":
                yield f"{src},{dst},tcp,{port},3"
            case "hubble":
                ends = [{"namespace": ns, "pod_name": pod, "identity": 7, "labels": ["k8s:app=a"]}
                        for ns, pod in (one, other)]  # fmt: skip
                yield json.dumps({"flow": {
                    "time": "2026-05-04T09:12:31Z", "verdict": "FORWARDED", "is_reply": False,
                    "l4": {"TCP": {"source_port": 49152, "destination_port": port}},
                    "source": ends[0], "destination": ends[1], "Type": "L3_L4",
                    "traffic_direction": "EGRESS"}, "node_name": "n"})  # fmt: skip
            case "calico":
                yield json.dumps({
                    "start_time": "2026-05-04T09:12:30Z", "action": "Allow", "reporter": "Src",
                    "source_name": one[1], "source_namespace": one[0], "source_labels": "app=a",
                    "dest_name": other[1], "dest_namespace": other[0], "dest_labels": "app=b",
                    "protocol": "tcp", "dest_port": port, "packets_in": 1})  # fmt: skip
            case _:
                yield json.dumps({
                    "schema": "policyc.dev/node-event/v1", "kind": "connection",
                    "verdict": "allowed", "protocol": "TCP", "source": src, "destination": dst,
                    "source_address": "", "destination_address": "", "destination_port": port,
                    "by_reply": False, "egress": {}, "ingress": None})  # fmt: skip


def main() -> None:
    """Measure, and print a line for each figure."""
    n_flows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    n_lines = int(sys.argv[2]) if len(sys.argv) > 2 else 200_000
    with TemporaryDirectory() as folder:
        given = read(Path(folder))
    assert given.cluster is not None
    universe = given.cluster.universe
    names = [end.qualified_name for end in universe.endpoints if end.addresses]
    placing = Placing(given.cluster)
    columns = columns_of(placing, names, n_flows)
    start = time.perf_counter()
    distinct = columns.distinct()
    between = time.perf_counter()
    found = states_of(given.policies.policies, distinct.flows, universe.nodes)
    end = time.perf_counter()
    print(f"{n_flows} flows, {len(distinct.flows)} different, {len(names)} pods and policies:")
    print(f"  different ones found in {between - start:.1f} s, evaluated in {end - between:.1f} s")
    print(f"  {found.n_native} by compiled code; {int((found.states == 1).sum())} denied")
    for form in FORMATS:
        lines = list(lines_of(form, names, n_lines))
        start = time.perf_counter()
        read_observed(ObservedFile(lines, form), Placing(given.cluster))
        rate = n_lines / (time.perf_counter() - start)
        print(f"  {form}: {rate / 1000:.0f} thousand records a second read and placed")


if __name__ == "__main__":
    main()
