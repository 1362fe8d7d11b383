# SPDX-License-Identifier: Apache-2.0
"""Prints the table: python -m tests.guest.ipvlan OBJECTS, in a guest, by facts.sh."""

import os
import sys
from pathlib import Path

from tests.guest.ipvlan import answers, attempts, bed, cgroups, fields, forged, moved, paths
from tests.guest.ipvlan.hooks import PINS, Hooks, at_cgroups
from tests.guest.ipvlan.pods import CGROUPS, PODS, run


def _prepare() -> None:
    for path, kind in ((PINS.parent, "bpf"), (CGROUPS, "cgroup2")):
        path.mkdir(exist_ok=True)
        run(f"mount -t {kind} {kind} {path}")
    for pod in PODS:
        (CGROUPS / pod).mkdir()
    run("sysctl -qw net.core.bpf_jit_enable=1")


def _slaves(hooks: Hooks, kind: str) -> None:
    at = bed.slaves(hooks, kind)
    of_ipvlan = at.mode == "ipvlan"
    at.guarded(paths.pairs)
    if of_ipvlan:
        at.guarded(paths.flags)
        at.guarded(paths.parents_address)
    at.guarded(paths.nodes_slave)
    at.guarded(paths.on_the_link)
    at.guarded(answers.own_slave)
    at.guarded(answers.packet_sockets)
    if of_ipvlan:
        at.guarded(paths.layer_3)
    at.guarded(fields.fields)
    at.guarded(fields.stamps)
    with at_cgroups():
        at.guarded(cgroups.drops)
        at.guarded(cgroups.no_bypass)
        at.guarded(forged.forged, "net", "b")
        at.guarded(forged.addresses)
    if of_ipvlan:
        at.guarded(answers.redirects)
        at.guarded(answers.routes)
    at.guarded(moved.moved)
    at.guarded(attempts.in_nodes_user_namespace)
    at.guarded(attempts.in_its_own)


def _exclusive(hooks: Hooks) -> None:
    at = bed.exclusive(hooks)
    at.guarded(lambda it: it.exchanged("", ("a", "net"), ("net", "a")))
    at.guarded(forged.forged, "net")
    at.guarded(moved.moved)


def main(objects: Path) -> int:
    """Print all rows; 1 if some facts failed."""
    _prepare()
    release = os.uname().release
    tcx = tuple(map(int, release.split(".")[:2])) >= (6, 6)
    hooks = Hooks(objects / "hooks.o", tcx)
    print(f"{release}, hooks by {'tcx links' if tcx else 'clsact'}", flush=True)
    answers.loads(objects)
    _slaves(hooks, "ipvlan mode l2")
    _slaves(hooks, "macvlan mode bridge")
    _exclusive(hooks)
    return int(hooks.has_failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
