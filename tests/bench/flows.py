# SPDX-License-Identifier: Apache-2.0
"""Many connections, and floods of first packets: `make bench-flows`.

    PYTHONPATH=. python tests/bench/flows.py [--flows N] [--flood N] [--family 6] [--json FILE]

What a known packet and a first one cost beside so many connections, over what they cost without; how
many of those go on during the flood and after it; and the memory that the kernel has for the hooks'
maps. The kernel's own count of a program's time in BPF_PROG_TEST_RUN, a packet a call: half of the
connections are TCP and half UDP, from eight pods to one; the flood is TCP, half from a pod and half from
outside to a node port. Needs root, clang, and for the ratios a quiet machine.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bpf_time import pin_to_one_cpu
from packets_bed import compile_objects
from policy import machine
from tests.kernel.support.many_flows import (
    Flow,
    Hooks,
    entries,
    flows,
    load_clients,
    memory,
    sample,
)
from tests.kernel.support.node_under_test import NodeUnderTest
from tests.kernel_corpus.surroundings import own_bpffs, own_network

ASKED = 20000
PORTIONS = 10
MIB = 1 << 20


def main(arguments: list[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flows", type=int, default=80_000)
    parser.add_argument("--flood", type=int, default=300_000)
    parser.add_argument("--family", type=int, choices=(4, 6), default=4)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    pin_to_one_cpu()
    with _loaded() as node, closing(Hooks(node, asked.family)) as hooks:
        found = measured(node, hooks, asked)
    for what, value in found.items():
        print(f"{what:58} {value}")
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n")
    return 0


def measured(
    node: NodeUnderTest, hooks: Hooks, asked: argparse.Namespace
) -> dict[str, float | int | str]:
    """The printed results; ratios are of two measurements of this run."""
    wanted = flows(asked.flows)
    empty = memory(node)
    hooks.open(wanted[:2])
    one = _each(hooks, lambda: hooks.answers(wanted[:2] * (ASKED // 2)))
    lone = _each(hooks, lambda: hooks.flood_from_pod(asked.flood, ASKED))
    opened = hooks.open(wanted)
    kept = entries(node, asked.family)[1]
    filled = memory(node)
    many = _each(hooks, lambda: hooks.answers(sample(wanted, min(ASKED, len(wanted)), 1)))
    went_on, tried, costs = 0, 0, []
    portion = asked.flood // PORTIONS // 2
    for number in range(PORTIONS):
        first = number * portion
        costs.append(_each(hooks, lambda at=first: hooks.flood_from_pod(at, portion)))
        hooks.flood_from_outside(first, portion)
        some = sample(wanted, min(1000, len(wanted)), number)
        went_on += hooks.answers(some)
        tried += len(some)
    unanswered, still_kept = entries(node, asked.family)
    return {
        "connections opened": f"{opened} of {asked.flows}",
        "kept, before and after the flood": f"{kept}, {still_kept}",
        "asked during the flood, and went on": f"{tried}, {went_on}",
        "asked after it, and went on": f"{len(wanted)}, {hooks.answers(wanted)}",
        "first packets of the flood": portion * PORTIONS * 2,
        "unanswered ones that are remembered (32,768 at most)": unanswered,
        "memory of all maps, MiB: empty": round(empty / MIB, 1),
        "  with all connections, over that": round(filled / empty, 3),
        "  after the flood, over that": round(memory(node) / empty, 3),
        "known packet, of any of them over one of two alone": round(many / one, 2),
        "first packet in the flood, over one without connections": round(
            sorted(costs)[PORTIONS // 2] / lone, 2
        ),
        "forged answers that passed": hooks.answers([Flow("udp", 1999, 7999)]),
    }


def _each(hooks: Hooks, step: Callable[[], int]) -> float:
    """Nanoseconds of a run of the pod's hook."""
    before = hooks.spent()
    step()
    after = hooks.spent()
    return (after[0] - before[0]) / (after[1] - before[1])


@contextmanager
def _loaded() -> Iterator[NodeUnderTest]:
    with (
        tempfile.TemporaryDirectory(prefix="policyc-bench-") as name,
        own_network(),
        own_bpffs(Path(name) / "bpffs") as bpffs,
    ):
        folder = Path(name)
        compile_objects(folder)
        node = NodeUnderTest(folder, folder, bpffs)
        node.make_devices()
        try:
            load_clients(node, "world")
            yield node
        finally:
            node.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
