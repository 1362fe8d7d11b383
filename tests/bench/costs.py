# SPDX-License-Identifier: Apache-2.0
"""Measure the cost table that layouts are chosen by: `python tests/bench/costs.py [--json FILE]`.

One operation of the policy program a run, with the same key and with random ones, net of a run without
it; medians of rounds over every size in turn. Prints what `backends/ebpf_c/costs.py` says beside it.
Needs root and a quiet machine.
"""

import argparse
import json
import random
import statistics
import struct
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bpf_time import Loaded, pin_to_one_cpu, private_bpffs, run

from policyc.backends.ebpf_c import clang, costs
from policyc.backends.ebpf_c.tree import tree
from policyc.compiler.driver.compile.objects import datapath_files
from policyc.runtime.kernel import bpf_syscall

HERE = Path(__file__).parent
REPEAT, PIECES = 1 << 16, 6
WORD, LINE = 4, 64
MEASURED = {
    "array": ("c_array", costs.ARRAY, WORD, (12, 16, 19, 23, 25)),
    "node": ("c_node", costs.NODE, LINE, (8, 12, 15, 19, 21)),
    "range": ("c_range", costs.RANGE, LINE, (8, 12, 15, 19, 21)),
    "fan": ("c_fan", costs.FAN, LINE, (8, 12, 14)),
    "buckets": ("c_bucket", costs.BUCKETS, LINE, (8, 12, 15, 19, 21)),
    "lpm": ("c_lpm", costs.LPM, 1, (0, 3, 10, 13, 17)),
    "code": ("c_code", costs.CODE, 1, (0, 1, 2, 3, 5, 7, 10, 12)),
}
"""Curve -> (program, curve, bytes of an element, sizes as powers of two)."""


def main(arguments: list[str]) -> int:
    """Measure every point, and print it beside the table's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    pin_to_one_cpu()
    found: dict[str, list[tuple[int, float, float]]] = {}
    with private_bpffs() as bpffs:
        for name, (program, curve, unit, powers) in MEASURED.items():
            for power in powers:
                size = 1 << power
                hot, uniform = cost(program, name, size, asked.rounds, bpffs)
                found.setdefault(name, []).append((size * unit, hot, uniform))
                line = f"{name:8} {size * unit:>10} {curve.unit:20} hot {hot:6.1f} random {uniform:6.1f}"
                print(f"{line}  table, mean of both {curve.at(size * unit):6.1f}", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def cost(program: str, name: str, size: int, rounds: int, bpffs: Path) -> tuple[float, float]:
    """Median net ns of one operation at a size in elements: (the same key, random keys)."""
    with ExitStack() as held:
        loaded = built(name, size, bpffs, held)
        fill(name, size, loaded)
        pair = loaded.program(program), loaded.program("c_nothing")
        found = []
        for mask in (0, 0xFFFFFFFF):
            state = struct.pack("=QQ", 1, mask)
            bpf_syscall.map_update(loaded.maps["c_state"], bytes(4), state)
            samples = []
            for _ in range(rounds):
                one, nothing = (min(run(fd, REPEAT)[0] for _ in range(PIECES)) for fd in pair)
                samples.append(one - nothing)
            found.append(max(0.0, statistics.median(samples)))
        return found[0], found[1]


def built(name: str, size: int, bpffs: Path, held: ExitStack) -> Loaded:
    """costs.c for one size, loaded; a map that is not measured has one element."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "datapath").mkdir()
        for header, data in datapath_files().items():
            (work / "datapath" / header).write_bytes(data)
        (work / "costs.c").write_bytes((HERE / "costs.c").read_bytes())
        leaves = size if name == "code" else 1
        step = (1 << 32) // leaves
        steps = [(f"{at * step:#x}U", str(at + 1)) for at in range(leaves)]
        body = "\n".join(tree(steps, lambda at: f"key < {at}", 1))
        head = "static __always_inline __u32 tree(__u32 key)\n{\n\t(void)key;\n"
        (work / "tree.h").write_text(f"{head}{body}\n}}\n")
        entries = 1 if name == "code" else size
        command = [clang.find_tool("clang"), *clang.flags("datapath"), "-I.", f"-DSIZE={entries}"]
        command += ['-DTREE="tree.h"', "-c", "costs.c", "-o", "out.o"]
        subprocess.run(command, cwd=work, check=True)
        subprocess.run([clang.find_tool("llvm-strip"), "-g", "out.o"], cwd=work, check=True)
        return Loaded(work / "out.o", bpffs, held)


def fill(name: str, size: int, loaded: Loaded) -> None:
    """Prefixes for the trie; tables stay empty, because their contents do not affect the cost."""
    if name != "lpm":
        return
    rng = random.Random(size)
    for _ in range(size):
        length = rng.randint(16, 28)
        address = (rng.getrandbits(length) << (32 - length)).to_bytes(4, "big")
        key = struct.pack("=I", length) + address
        bpf_syscall.map_update(loaded.maps["c_trie"], key, struct.pack("=I", 1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
