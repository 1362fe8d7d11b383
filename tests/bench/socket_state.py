# SPDX-License-Identifier: Apache-2.0
"""Measure ways to the state of a connection: `PYTHONPATH=. python tests/bench/socket_state.py`.

The conntrack table's lookup, the lookup of the connection's socket, the same with the socket's storage,
and the storage of a packet's own socket. Real TCP connections over loopback, in a network namespace of
this process; a run looks up random ones of them. Net of a run that only chooses; medians of rounds over
all ways in turn.

Only a hook of the socket's cgroup sees a packet's own socket. What such a hook costs is measured by
datagrams over loopback: with hooks in both directions, and without. Needs root and a quiet machine.
"""

import argparse
import json
import os
import resource
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
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
from tests.kernel_corpus.surroundings import own_network

from policyc.runtime.kernel import bpf_syscall, rtnetlink

HERE = Path(__file__).parent
SOURCE, HEADER = HERE / "socket_state.c", HERE / "chosen_flows.h"
STEPS = 64
"""B_STEPS."""
FLOWS = (1, 64, 1024, 8192)
WAYS = {
    "conntrack table": "b_hash",
    "socket": "b_socket",
    "socket and its storage": "b_state",
    "storage of the packet's own socket": "b_own",
}
HOOKS = {"b_group_out": 1, "b_group_in": 0}
"""Program -> enum bpf_attach_type."""
DATAGRAMS = 20000
REPEAT = 1000
PER_SERVER = 8192
"""Connections to one address and port: each takes a port of the client."""
FLOW = struct.Struct("=16s16s2s2sBBBx36sI")  # struct b_flow
LOOPBACK = {4: "127.0.0.1", 6: "::1"}


def main(arguments: list[str]) -> int:
    """Print nanoseconds for each way, family and number of connections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--flows", type=int, nargs="+", default=FLOWS)
    parser.add_argument("--cgroups", type=Path, default=Path("/sys/fs/cgroup/unified"))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    most = 2 * max(asked.flows) + 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    pin_to_one_cpu()
    found = {}
    with own_network():
        with rtnetlink.connection("the benchmark") as netlink:
            netlink.link("set", index=1, state="up")
        for family in (4, 6):
            with private_bpffs() as bpffs, ExitStack() as held:
                found[f"IPv{family}"] = measured(family, asked.flows, asked.rounds, bpffs, held)
        with private_bpffs() as bpffs, ExitStack() as held:
            hook = hook_cost(
                Loaded(compiled(SOURCE, HEADER), bpffs, held), asked.cgroups, asked.rounds, held
            )
        print(f"a hook of the cgroup, ns a packet and direction: {hook:.1f}")
    if asked.json:
        found["hook of the cgroup"] = {"ns": round(hook, 1)}
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def measured(
    family: int, sizes: list[int], rounds: int, bpffs: Path, held: ExitStack
) -> dict[str, dict[str, float]]:
    """Number of connections -> way -> ns of a lookup."""
    loaded = Loaded(compiled(SOURCE, HEADER), bpffs, held)
    clients = list(islice(connections(family, held), max(sizes)))
    flows = loaded.maps["b_flows"]
    for at, client in enumerate(clients):
        bpf_syscall.map_update(flows, struct.pack("=I", at), flow_of(family, client))
    for first in range(0, len(clients), STEPS):
        ranged(loaded, 0, first)
        _, filled = run(loaded.program("b_fill"), 1)
        expected = min(STEPS, len(clients) - first)
        if filled != expected:
            raise SystemExit(
                f"{filled} of {expected} connections have a socket: nothing to measure"
            )
    found: dict[str, dict[str, float]] = {}
    for size in sizes:
        ranged(loaded, size - 1, 0)
        found[str(size)] = net_of_nothing(loaded, WAYS, STEPS, rounds, REPEAT)
        words = ", ".join(f"{way} {ns:.1f}" for way, ns in found[str(size)].items())
        print(f"IPv{family}, {size:>6} connections, ns: {words}", flush=True)
    return found


def hook_cost(loaded: Loaded, cgroups: Path, rounds: int, held: ExitStack) -> float:
    """What two hooks of a cgroup add to a datagram that is sent and received, in ns, halved."""
    before = Path("/proc/self/cgroup").read_text().splitlines()[-1].partition("::")[2]
    folder = Path(tempfile.mkdtemp(prefix="policyc-bench-", dir=cgroups))
    held.callback(folder.rmdir)
    held.callback((cgroups / before.lstrip("/") / "cgroup.procs").write_text, "0")
    (folder / "cgroup.procs").write_text("0")
    sender, receiver = (
        held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2)
    )
    receiver.bind(("127.0.0.1", 0))
    sender.connect(receiver.getsockname())
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    held.callback(os.close, at)
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for is_hooked, taken in times.items():
            with ExitStack() as hooks:
                for name, kind in HOOKS.items() if is_hooked else ():
                    program = loaded.program(name)
                    link = bpf_syscall.link_create_cgroup(program, at, kind)
                    hooks.callback(bpf_syscall.link_detach, hooks.enter_context(link))
                began = time.perf_counter_ns()
                for _ in range(DATAGRAMS):
                    sender.send(b"!")
                    receiver.recv(1)
                taken.append((time.perf_counter_ns() - began) / DATAGRAMS)
    return (statistics.median(times[True]) - statistics.median(times[False])) / 2


def connections(family: int, held: ExitStack) -> Iterator[socket.socket]:
    """Clients of connections over loopback, open as long as `held`."""
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    while True:
        server = held.enter_context(socket.socket(kind))
        server.bind((LOOPBACK[family], 0))
        server.listen(1024)
        for _ in range(PER_SERVER):
            client = held.enter_context(socket.socket(kind))
            client.connect(server.getsockname())
            held.enter_context(server.accept()[0])
            yield client


def flow_of(family: int, client: socket.socket) -> bytes:
    """The tuple of a packet of the server, and the same as the helper takes it."""
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    here, there = client.getsockname(), client.getpeername()
    saddr, daddr = (socket.inet_pton(kind, each[0]) for each in (there, here))
    sport, dport = (each[1].to_bytes(2, "big") for each in (there, here))
    at = saddr + daddr + sport + dport
    return FLOW.pack(saddr, daddr, sport, dport, family, socket.IPPROTO_TCP, 0, at, len(at))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
