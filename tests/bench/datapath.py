# SPDX-License-Identifier: Apache-2.0
"""Cost of traffic between two pods: `python tests/bench/datapath.py [--rounds N] [--policies 1,120]`.

CPU time of an operation, of both ends and of the kernel for them, as a ratio to plain routing between
the same veth pairs. All beds (`datapath_beds.py`) stand at once and are asked in turns, round by round;
each ratio is of two measurements of one round, and the median over the rounds counts, with its
quartiles. The second bed of plain routing is the control. Needs root, a C compiler and a quiet machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import datapath_http
from datapath_beds import Bed, beds
from datapath_results import Measured, Traffic, all_traffic, plot, row, table
from policy import machine

HERE = Path(__file__).resolve().parent
OPERATIONS = {
    "udp": 20000,
    "request": 20000,
    "connect": 3000,
    "http": 3000,
    "keepalive": 10000,
    "stream": 4000,
}


def main(arguments: list[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--policies", default="1,120,1000")
    parser.add_argument("--services", default="1,1000,5000")
    parser.add_argument("--ways", default=",".join(OPERATIONS))
    parser.add_argument("--combined", default="120x1000", help="policies x Services at once")
    parser.add_argument("--families", default="4,6")
    parser.add_argument("--share", type=float, default=1.0, help="of the operations of a full run")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="write PREFIX.svg, PREFIX.png and PREFIX.md")
    asked = parser.parse_args(arguments)
    wanted = all_traffic(asked.families, asked.ways)
    policies, services, combined = (
        tuple(filter(None, sizes.split(",")))
        for sizes in (asked.policies, asked.services, asked.combined)
    )
    pairs = [(int(n), int(m)) for n, m in (each.split("x") for each in combined)]
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="pc-bench-")))
        built(folder)
        standing = beds([*map(int, policies)], [*map(int, services)], pairs, held)
        found: Measured = {each: {bed.name: [] for bed in standing} for each in wanted}
        for number in range(asked.rounds):
            # Every other round backwards, so that no bed always follows the same one.
            for bed in standing if number % 2 else standing[::-1]:
                for each in wanted:
                    found[each][bed.name].append(operation(folder, bed, each, asked.share))
    result = {
        "machine": machine(),
        "rounds": asked.rounds,
        "rows": [row(each, name, found) for each in wanted for name in found[each]],
    }
    print(table(result))
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")
    if asked.plot:
        plot(result, asked.plot)
        asked.plot.with_suffix(".md").write_text(table(result))
    return 0


def built(folder: Path) -> None:
    """The program that makes the traffic, but for HTTP."""
    source = HERE / "pingpong.c"
    words = ("clang", "-O2", "-Wall", "-Werror", source, "-o", folder / "pingpong")
    subprocess.run([*map(str, words)], check=True)


def operation(folder: Path, bed: Bed, traffic: Traffic, share: float) -> float:
    """Nanoseconds of CPU for one operation. `share`: of the operations of a full run."""
    family, way = traffic
    cpu = max(os.sched_getaffinity(0))
    n = max(1, round(OPERATIONS[way] * share))
    softirq = ksoftirqd(cpu)
    if way in datapath_http.WAYS:
        return datapath_http.request_ns(folder, bed, family, way, n, cpu, softirq)
    words = (way, bed.client, bed.server, bed.asked[family], bed.port, n, cpu, softirq)
    done = subprocess.run(
        [str(folder / "pingpong"), *map(str, words)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{bed.name}, {way}: {done.stderr.strip()}")
    return float(done.stdout.split()[0])


def ksoftirqd(cpu: int) -> int:
    """The pid of the kernel's thread for packets of a CPU."""
    for path in Path("/proc").glob("[0-9]*/comm"):
        if path.read_text().strip() == f"ksoftirqd/{cpu}":
            return int(path.parent.name)
    raise SystemExit(f"there is no ksoftirqd/{cpu}, whose time would be missing")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
