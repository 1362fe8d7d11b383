# SPDX-License-Identifier: Apache-2.0
"""Run the frames of flows.py through a loaded bundle by BPF_PROG_TEST_RUN, on any kernel."""

import json
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.load import node
from policyc.runtime.load.request import LoadRequest
from tests.kernel_corpus.surroundings import own_network, temporary_bpffs

NEXT, DROP = -1, 2
UPLINK = "pcup"


def wrong_verdicts(case: Path, bundle: str) -> list[str]:
    """Load this bundle of a case on devices of its own; the flows whose verdict is another."""
    record = json.loads((case / "frames.json").read_text())
    with (
        own_network(),
        temporary_bpffs() as bpffs,
        tempfile.TemporaryDirectory(prefix="pc-corpus-") as state,
    ):
        _make_devices([*record["devices"], UPLINK])
        node.load(
            LoadRequest(
                bundle=case / bundle,
                endpoints=case / "endpoints.json",
                bpffs=bpffs,
                state_root=Path(state) / "state",
            )
        )
        try:
            return _ask(Pins(bpffs), record["frames"])
        finally:
            node.unload(bpffs=bpffs, state_root=Path(state) / "state")


def _make_devices(names: list[str]) -> None:
    # The devices would discover neighbours by themselves, which is traffic, too.
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    lines = [f"link add {name} type veth peer name {name}.p" for name in names]
    lines += [f"link set {name} up" for name in names]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def _ask(pins: Pins, frames: list[dict[str, Any]]) -> list[str]:
    wrong = []
    with (
        bpf_syscall.obj_get(pins.hook("pc_from_pod")) as from_pod,
        bpf_syscall.obj_get(pins.hook("pc_to_pod")) as to_pod,
    ):
        hooks = {
            "pc_from_pod": bpf_syscall.TestRun(from_pod),
            "pc_to_pod": bpf_syscall.TestRun(to_pod),
        }
        for frame in frames:
            answer = hooks[frame["hook"]](
                bytes.fromhex(frame["bytes"]),
                ifindex=socket.if_nametoindex(frame["device"]),
                ingress_ifindex=socket.if_nametoindex(frame["came_in"]),
            )
            if answer != (NEXT if frame["passes"] else DROP):
                wrong.append(f"{frame['flow']}: {answer}, expected passes={frame['passes']}")
    return wrong
