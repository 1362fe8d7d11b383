# SPDX-License-Identifier: Apache-2.0
"""The node that a test loads bundles on and throws frames at."""

import socket
import struct
import subprocess
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime import bpf_syscall
from policyc.runtime import node as runtime
from policyc.runtime.attach import Mode
from policyc.runtime.btf import Btf, StructLayout
from policyc.runtime.forwarding import Forwarding
from policyc.runtime.node import Loaded
from policyc.runtime.pins import Pins
from policyc.runtime.status import NodeStatus, status
from tests.kernel.packets import Host
from tests.kernel.table_policy import NamePlacer, TablePolicy, endpoints_json, write_bundle

A = Host("02:00:00:00:00:0a", "10.0.0.10", "fd00::10")
B = Host("02:00:00:00:00:0b", "10.0.0.11", "fd00::11")
C = Host("02:00:00:00:00:0c", "10.0.1.12", "fd00:1::12")  # a pod of another node
WORLD = Host("02:00:00:00:00:ee", "203.0.113.9", "2001:db8::9")
NODE = Host("02:00:00:00:00:ff", "10.0.0.1", "fd00::1")
HOSTS = {"a": A, "b": B, "c": C, "world": WORLD, "node": NODE}
LOCAL = {"a": "pca", "b": "pcb"}  # pod -> the host's side of its veth
UPLINK = "pcup"
NEXT, DROP = -1, 2


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def endpoint(name: str, host: Host, interface: str | None) -> dict[str, object]:
    """An entry of the endpoints file."""
    entry: dict[str, object] = {
        "namespace": "shop", "name": name, "labels": {"app": name}, "addresses": [host.ip4, host.ip6],
    }  # fmt: skip
    if interface:
        return entry | {"interface": interface, "mac": host.mac, "node": "node-1"}
    return entry | {"node": "node-2"}


@dataclass
class NodeUnderTest:
    """Its files are below `folder`, its pins below `bpffs`; the caller is in its namespace."""

    folder: Path
    objects: Path
    bpffs: Path
    node_addresses: tuple[str, ...] = (NODE.ip4, NODE.ip6)
    """Those that the endpoints file says the node has."""

    def __post_init__(self) -> None:
        self.ifindex: dict[str, int] = {}
        self.pins = Pins(self.bpffs)
        self.state_root = self.folder / "state"
        self.n_bundles = 0
        self.warnings: list[str] = []
        self._programs = ExitStack()
        self._fds: dict[str, int] = {}

    def make_devices(self) -> None:
        """One veth pair a local pod, and an uplink that packets can say they came in by."""
        # The devices would discover neighbours by themselves, and be counted.
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        ip("link", "set", "lo", "up")
        for device in (*LOCAL.values(), UPLINK):
            ip("link", "add", device, "type", "veth", "peer", "name", f"{device}.p")
            ip("link", "set", device, "up")
            ip("link", "set", f"{device}.p", "up")
            self.ifindex[device] = socket.if_nametoindex(device)

    def policy(self) -> TablePolicy:
        return TablePolicy(pods=("a", "b", "c"))

    def bundle(self, policy: TablePolicy, objects: Path | None = None, kernel: str = "6.1") -> Path:
        self.n_bundles += 1
        folder = self.folder / f"bundle-{self.n_bundles}"
        return write_bundle(folder, objects or self.objects, policy, kernel=kernel)

    def endpoints(self, entries: list[dict[str, object]] | None = None) -> Path:
        path = self.folder / "endpoints.json"
        if entries is None:
            entries = [endpoint(n, HOSTS[n], LOCAL.get(n)) for n in ("a", "b", "c")]
        path.write_text(endpoints_json("node-1", entries, self.node_addresses))
        return path

    def load(
        self,
        policy: TablePolicy,
        *,
        objects: Path | None = None,
        entries: list[dict[str, object]] | None = None,
        mode: Mode = "auto",
        forward: Forwarding = "redirect",
    ) -> Loaded:
        self._forget_programs()
        return runtime.load(
            self.bundle(policy, objects),
            self.endpoints(entries),
            bpffs=self.bpffs,
            mode=mode,
            forward=forward,
            state_root=self.state_root,
            placer=NamePlacer,
            warn=self.warnings.append,
        )

    def unload(self) -> bool:
        self._forget_programs()
        return runtime.unload(
            bpffs=self.bpffs, state_root=self.state_root, warn=self.warnings.append
        )

    def status(self) -> NodeStatus | None:
        return status(bpffs=self.bpffs, state_root=self.state_root)

    def drops(self) -> dict[str, int]:
        found = self.status()
        assert found is not None
        return found.drops

    def sent_by(self, pod: str, frame: bytes) -> bool:
        """Whether the pod's frame passes its hook."""
        return self._run("pc_from_pod", frame, LOCAL[pod], came_in=LOCAL[pod])

    def sends_on_the_wire(self, pod: str, frame: bytes) -> None:
        """Send from the pod's own device: for frames that a test run refuses to take."""
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind((f"{LOCAL[pod]}.p", 0))
            wire.send(frame)

    def sent_to(self, pod: str, frame: bytes, came_in: str = UPLINK) -> bool:
        """Whether a frame that came in by some device passes on to the pod."""
        return self._run("pc_to_pod", frame, LOCAL[pod], came_in=came_in)

    def sent_by_node_to(self, pod: str, frame: bytes) -> bool:
        """Whether a frame that was generated on the node passes on to the pod."""
        return self._run("pc_to_pod", frame, LOCAL[pod], came_in=None)

    def _run(self, program: str, frame: bytes, device: str, came_in: str | None) -> bool:
        if program not in self._fds:
            self._fds[program] = self._programs.enter_context(
                bpf_syscall.obj_get(self.pins.hook(program))
            )
        came_in_by = self.ifindex[came_in] if came_in else 0
        verdict = bpf_syscall.TestRun(self._fds[program])(
            frame, ifindex=self.ifindex[device], ingress_ifindex=came_in_by
        )
        assert verdict in (NEXT, DROP), verdict
        return verdict == NEXT

    @contextmanager
    def shared_map(self, name: str) -> Iterator[int]:
        with bpf_syscall.obj_get(self.pins.map(name)) as fd:
            yield fd

    def connections(self, family: int = 4) -> list[dict[str, bytes]]:
        """The entries of both connection tables, field by field."""
        return [
            entry for name in (f"pc_ct{family}", f"pc_ct{family}_new") for entry in self.table(name)
        ]

    def table(self, name: str) -> list[dict[str, bytes]]:
        """The entries of one table of connections."""
        with self.shared_map(name) as fd:
            info = bpf_syscall.map_info(fd)
            keys = bpf_syscall.map_keys(fd, info.key_size)
            values = [bpf_syscall.map_lookup(fd, key, info.value_size) for key in keys]
        return [self.layout("pc_ct").unpack(value) for value in values if value is not None]

    def expire_connections(self, family: int = 4, ports: Collection[int] = ()) -> None:
        """Let every connection, or those of the ports, have been silent for too long."""
        at, size = self.layout("pc_ct").fields["expires"]
        key_of = self.layout(f"pc_ct{family}_key")
        wanted = {struct.pack("!H", port) for port in ports}
        for name in (f"pc_ct{family}", f"pc_ct{family}_new"):
            with self.shared_map(name) as fd:
                info = bpf_syscall.map_info(fd)
                for key in list(bpf_syscall.map_keys(fd, info.key_size)):
                    of = key_of.unpack(key)
                    if wanted and not wanted & {of["lo_port"], of["hi_port"]}:
                        continue
                    value = bytearray(bpf_syscall.map_lookup(fd, key, info.value_size) or b"")
                    value[at : at + size] = struct.pack("=Q", 1)
                    bpf_syscall.map_update(fd, key, bytes(value))

    def layout(self, name: str) -> StructLayout:
        return Btf.of_object(self.objects / "hooks.bpf.o").struct(name)

    def _forget_programs(self) -> None:
        self._programs.close()
        self._fds.clear()

    def close(self) -> None:
        self._forget_programs()
        for device in self.ifindex:
            subprocess.run(["ip", "link", "del", device], check=False, capture_output=True)
