# SPDX-License-Identifier: Apache-2.0
"""The cost of a packet in the hooks: `python tests/bench/packets.py [--rounds N] [CHECKOUT ...]`.

Nanoseconds net of an empty program, of packets between two pods of a node under a policy of one rule,
direct or through a Service: `known` and `reply`, of a connection that the policy in force has decided
and that is handed over to the other pod, and `new`, first packets, each of a flow of its own; the
kernel's own count of a program's time in BPF_PROG_TEST_RUN, a packet a call; `warm` is one packet over
and over in a call, as the figures of others are taken. Several checkouts of this
repository (each after its `tools/namespace.sh`) are measured in turns: a change beside what was
before. Medians of the rounds, minima in brackets. Needs root, clang and a quiet machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent


Measured = list[dict[str, float]]
"""A round each: what -> ns."""


def _server(checkout: Path, sources: Path | None) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": f"{checkout}/build/namespace:{checkout}"}
    if sources:
        environment["POLICYC_BENCH_SOURCES"] = str(sources)
    return subprocess.Popen(
        [sys.executable, str(HERE / "packets_bed.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def rounds_of(beds: Sequence[tuple[Path, Path | None, str]], n: int) -> list[Measured]:
    """Checkouts, each with its own datapath or with other sources of it, measured in turns: all
    packets, or those that are `known` or `new`.
    """
    servers = [_server(checkout.resolve(), sources) for checkout, sources, _ in beds]
    rounds: list[Measured] = [[] for _ in servers]
    for _ in range(n):
        for server, found, (_, _, wanted) in zip(servers, rounds, beds, strict=True):
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(f"{wanted}\n")
            server.stdin.flush()
            found.append(json.loads(server.stdout.readline()))
    for server in servers:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
    return rounds


def main() -> None:
    """Measure every checkout in turns, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[HERE.parents[1]])
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    rounds = rounds_of([(folder, None, "") for folder in given.checkouts], given.rounds)
    print(f"{'ns':24}" + "".join(f"{str(folder)[-24:]:>26}" for folder in given.checkouts))
    for what in rounds[0][0]:
        cells = [[one[what] for one in found] for found in rounds]
        shown = [f"{statistics.median(cell):.0f} [{min(cell):.0f}]" for cell in cells]
        print(f"{what:24}" + "".join(f"{cell:>26}" for cell in shown))


if __name__ == "__main__":
    main()
