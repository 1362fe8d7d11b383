# SPDX-License-Identifier: Apache-2.0
"""The cost of traffic between two nodes: `python tests/bench/across.py [--rounds N] [--json FILE]`.

CPU time of an operation, of both ends and of all kernels between them, as a ratio to plain routing over
the same links, measured as datapath.py does. Four groups of beds (`across_beds.py`), each with plain
routing and a control of its own:

- from a pod to a pod of another node, both nodes having what is measured; also through a Service;
- from a pod to another node, of which only the pod's has it;
- from outside to a node port, the endpoint being on another node. Plain routing is straight to the
  endpoint there, by the same two nodes both ways;
- the same with checksums and segments that are finished before they leave who sends them, also by XDP.

`--table FILE` measures nothing and prints the tables of an earlier run. Needs root, a C compiler,
iptables and a quiet machine.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from across_beds import groups
from datapath import built, operation
from datapath_results import WHAT, Measured, all_traffic, grid, head, row
from goals import goal_table
from policy import machine

WAYS = ("udp", "request", "connect", "http", "stream")


def main(arguments: list[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--policies", type=int, default=120)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--families", default="4,6")
    parser.add_argument("--share", type=float, default=1.0, help="of the operations of a full run")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="write the tables there, too")
    parser.add_argument("--table", type=Path, help="print those of an earlier run's --json")
    asked = parser.parse_args(arguments)
    if asked.table:
        print(table(json.loads(asked.table.read_text())), end="")
        return 0
    result = measured(asked)
    print(table(result), end="")
    if asked.markdown:
        asked.markdown.write_text(table(result))
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """All groups in one run, every other round backwards."""
    wanted = all_traffic(asked.families, asked.ways)
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="pc-bench-")))
        built(folder)
        standing = groups(asked.policies, asked.services, folder, held)
        found: dict[str, Measured] = {
            group: {each: {bed.name: [] for bed in beds} for each in wanted}
            for group, beds in standing.items()
        }
        for number in range(asked.rounds):
            for group, beds in standing.items():
                for bed in beds if number % 2 else beds[::-1]:
                    for each in wanted:
                        cost = operation(folder, bed, each, asked.share)
                        found[group][each][bed.name].append(cost)
    rows = [
        {"group": group, **row(each, name, found[group])}
        for group in found
        for each in wanted
        for name in found[group][each]
    ]
    return {
        "machine": machine(),
        "rounds": asked.rounds,
        "policies": asked.policies,
        "services": asked.services,
        "rows": rows,
    }


def table(result: dict[str, Any]) -> str:
    """Markdown: a table for each family, with the groups one below the other; then the goals."""
    by, rows = result["machine"], result["rows"]
    lines = [
        "<!-- written by tests/bench/across.py -->",
        f"Linux {by['kernel']}, {by['cpu']}; {result['policies']} policies,"
        f" {result['services']} Services. Rows that begin with `--` are this project.",
    ]
    for family in dict.fromkeys(each["family"] for each in rows):
        own = [each for each in rows if each["family"] == family]
        lines += [*head(result | {"rows": own}), *_groups(own), ""]
    return "\n".join([*lines, *goal_table(rows, WHAT)]) + "\n"


def _groups(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The rows below the head; a bed of this project is called by its options."""
    n_columns = len({each["way"] for each in rows})
    for group in dict.fromkeys(each["group"] for each in rows):
        yield f"| **{group}** |" + " |" * n_columns
        for line in grid([each for each in rows if each["group"] == group]):
            yield line.replace("this project, ", "").replace("through a Service", "to a Service")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
