# SPDX-License-Identifier: Apache-2.0
"""What the lookup of a known packet's entry costs: `python tests/bench/known_lookup.py`.

The conntrack table (a hash table of the kernel) beside an array with open addressing, whose lookup is
inline code. Each lookup is of a random one of so many connections, and reads the entry. Net of a run
that only chooses; medians of rounds over all ways in turn. Needs root, clang and a quiet machine.
"""

import argparse
import json
import random
import struct
import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bpf_time import (
    Loaded,
    compiled,
    net_of_nothing,
    pin_to_one_cpu,
    private_bpffs,
    ranged,
    run,
)

from policyc.runtime.kernel import bpf_syscall

HERE = Path(__file__).parent
SOURCE, HEADER = HERE / "known_lookup.c", HERE / "chosen_flows.h"
STEPS = 64
"""B_STEPS."""
FLOWS = {4: (1, 64, 1024, 8192, 32768, 131072), 6: (1, 64, 1024, 8192, 32768, 65536)}
"""Up to as many as the conntrack table holds."""
WAYS = {"hash table": "b_hash", "open addressing": "b_open"}
REPEAT = 1000
TUPLE = struct.Struct("=16s16s2s2sBBBx")  # struct pc_tuple


def main(arguments: list[str]) -> int:
    """Print nanoseconds for each way, family and number of connections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    pin_to_one_cpu()
    found = {}
    for family, sizes in FLOWS.items():
        with private_bpffs() as bpffs, ExitStack() as held:
            loaded = Loaded(compiled(SOURCE, HEADER), bpffs, held)
            found[f"IPv{family}"] = measured(loaded, family, sizes, asked.rounds)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def measured(
    loaded: Loaded, family: int, sizes: tuple[int, ...], rounds: int
) -> dict[str, dict[str, float]]:
    """Number of connections -> way -> ns of a lookup."""
    rng, filled = random.Random(family), 0
    found: dict[str, dict[str, float]] = {}
    for size in sizes:
        for at in range(filled, size):
            bpf_syscall.map_update(loaded.maps["b_flows"], struct.pack("=I", at), flow(family, rng))
        for first in range(filled - filled % STEPS, size, STEPS):
            ranged(loaded, 0, first)
            run(loaded.program("b_fill"), 1)
        filled = size
        ranged(loaded, size - 1, 0)
        found[str(size)] = net_of_nothing(loaded, WAYS, STEPS, rounds, REPEAT)
        words = ", ".join(f"{way} {ns:.1f}" for way, ns in found[str(size)].items())
        print(f"IPv{family}, {size:>6} connections, ns: {words}", flush=True)
    return found


def flow(family: int, rng: random.Random) -> bytes:
    """The tuple of a TCP packet from a pod of a node to a port of another one."""
    width = 4 if family == 4 else 16
    prefix = bytes((10, 244)) if family == 4 else bytes.fromhex("fd000244") + bytes(10)
    ends = [prefix + rng.randbytes(width - len(prefix)) for _ in range(2)]
    ports = rng.randrange(32768, 61000).to_bytes(2, "big"), (80).to_bytes(2, "big")
    return TUPLE.pack(*(each.ljust(16, b"\0") for each in ends), *ports, family, 6, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
