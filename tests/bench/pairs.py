# SPDX-License-Identifier: Apache-2.0
"""Cost of traffic behind veth and netkit: `tests/bench/pairs.py MODE FOLDER`.

prepare   compile the policy and the program that makes the traffic, into FOLDER
measure   in a guest whose clock counts instructions (`make bench-pairs`): write FOLDER's results to
          --json, and the table to --table

An operation's instructions are those of both ends and of the kernel for them, as a ratio to plain
routing between veth pairs. All beds stand at the same time, and rounds go from one to the next.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from datapath import built, ksoftirqd
from datapath_beds import CLIENT, METADATA, PORT, SERVER, address, refuse
from datapath_results import Measured, row

from policyc.runtime.lab.topology import EXTERNAL, UPLINK, Lab
from policyc.runtime.lab.wiring import Pair
from policyc.runtime.load import node as runtime
from policyc.runtime.load.request import LoadRequest

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: bench, name: policy}
spec:
  podSelector: {matchLabels: {app: server}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchLabels: {app: client}}}]
      ports: [{protocol: TCP, port: 8080}, {protocol: UDP, port: 8080}]
"""
OPERATIONS = {"udp": 2000, "request": 2000, "connect": 300, "stream": 300}
"""After the warm-up of pingpong.c."""
TARGETS = {"pod": SERVER.key, "outside": EXTERNAL.name}
WAYS = {
    (way, target): f"{what}, to {whom}"
    for target, whom in (("pod", "a pod of the node"), ("outside", "a host outside"))
    for way, what in (
        ("udp", "UDP, 64 bytes there and back"),
        ("request", "TCP, 64 bytes there and back"),
        ("connect", "a TCP connection with one request"),
        ("stream", "TCP, 64 KiB one way"),
    )
}


def main(arguments: list[str]) -> int:
    """Prepare or measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("mode", choices=("prepare", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--family", type=int, choices=(4, 6), default=4)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path)
    asked = parser.parse_args(arguments)
    if asked.mode == "prepare":
        prepare(asked.folder)
        return 0
    rows = measured(asked.folder, asked.rounds, asked.family)
    kernel = platform.release()
    if asked.json:
        asked.json.write_text(json.dumps({"kernel": kernel, "rows": rows}, indent=1) + "\n")
    text = table(rows, kernel, asked)
    if asked.table:
        asked.table.write_text(text)
    print(text)
    return 0


def prepare(folder: Path) -> None:
    """What a guest would be slow to compile."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.yaml").write_text(POLICY)
    words = "compile", "-f", folder / "policy.yaml", "-o", folder / "bundle"
    subprocess.run([sys.executable, "-m", "policyc.compiler.cli", *map(str, words)], check=True)
    built(folder)


@contextmanager
def bed(pair: Pair, bundle: Path | None) -> Iterator[Lab]:
    """A node with two pods and a host outside; without a bundle it only routes."""
    with Lab([CLIENT, SERVER], pair=pair) as lab, tempfile.TemporaryDirectory() as name:
        folder, bpffs = Path(name), lab.node.bpffs / "policyc"
        if bundle:
            lab.node.write_endpoints(folder / "endpoints.json", METADATA)
            request = LoadRequest(
                bundle=bundle,
                endpoints=folder / "endpoints.json",
                bpffs=bpffs,
                state_root=folder / "state",
                uplinks=(UPLINK,),
            )
            lab.node.run_in(partial(runtime.load, request, warn=refuse, note=refuse))
        yield lab


def measured(folder: Path, rounds: int, family: int) -> list[dict[str, Any]]:
    """A row for each bed and way."""
    bundle = folder / "bundle"
    with ExitStack() as held:
        beds = {
            name: held.enter_context(each)
            for name, each in (
                ("plain, veth", bed("veth", None)),
                ("plain, veth again", bed("veth", None)),
                ("plain, netkit", bed("netkit", None)),
                ("hooks, veth", bed("veth", bundle)),
                ("hooks, netkit", bed("netkit", bundle)),
            )
        }
        found: Measured = {(family, title): {name: [] for name in beds} for title in WAYS.values()}
        for _ in range(rounds):
            for (way, target), title in WAYS.items():
                for name, lab in beds.items():
                    cost = instructions(folder, lab, way, target, family)
                    found[family, title][name].append(cost)
    return [row(each, name, found) for each in found for name in found[each]]


def instructions(folder: Path, lab: Lab, way: str, target: str, family: int) -> float:
    """Of one operation, where the clock counts them."""
    end = lab.ends[TARGETS[target]]
    asked = address(SERVER if target == "pod" else EXTERNAL, family)
    words = (way, lab.ends[CLIENT.key].namespace, end.namespace, asked, PORT)
    done = subprocess.run(
        [str(folder / "pingpong"), *map(str, (*words, OPERATIONS[way], 0, ksoftirqd(0)))],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{way} to {target}: {done.stderr.strip()}")
    return float(done.stdout.split()[0])


def table(rows: list[dict[str, Any]], kernel: str, asked: argparse.Namespace) -> str:
    """Markdown: a row for each way, a column for each bed."""
    beds = list(dict.fromkeys(each["bed"] for each in rows))[1:]
    lines = [
        "<!-- written by tests/bench/pairs.py -->",
        f"Linux {kernel} in QEMU, whose clock counts instructions; IPv{asked.family}.",
        "Instructions of an operation over those of plain routing between veth pairs,"
        f" medians of {asked.rounds} rounds.",
        "",
        f"| | {' | '.join(beds)} |",
        "|---" * (1 + len(beds)) + "|",
    ]
    of = {(each["way"], each["bed"]): each["ratio"] for each in rows}
    for way in WAYS.values():
        lines.append(f"| {way} | {' | '.join(f'{of[way, name]:.2f}' for name in beds)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
