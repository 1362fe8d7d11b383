# SPDX-License-Identifier: Apache-2.0
"""The node that a test loads bundles on and throws frames at."""

import ctypes
import socket
import struct
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from policyc.runtime.attach import xdp
from policyc.runtime.attach.attach import Mode
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.devices.uplinks import Outside
from policyc.runtime.endpoints.forwarding import Forwarding
from policyc.runtime.failsafes import Side
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.btf import (
    Btf,
    StructLayout,
)
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.load import node as runtime
from policyc.runtime.load.node import (
    Loaded,
)
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.observe.status import (
    NodeStatus,
    status,
)
from policyc.runtime.services.update import update_services
from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support.network import network
from tests.kernel.support.packets import Host
from tests.kernel.support.table_policy import (
    NamePlacer,
    TablePolicy,
    endpoints_json,
    write_bundle,
)

A = Host("02:00:00:00:00:0a", "10.0.0.10", "fd00::10")
B = Host("02:00:00:00:00:0b", "10.0.0.11", "fd00::11")
C = Host("02:00:00:00:00:0c", "10.0.1.12", "fd00:1::12")  # a pod of another node
NEW = Host("02:00:00:00:00:1e", "10.0.0.30", "fd00::30")  # a pod of this node that no load knows
WORLD = Host("02:00:00:00:00:ee", "203.0.113.9", "2001:db8::9")
NODE = Host("02:00:00:00:00:ff", "10.0.0.1", "fd00::1")
HOSTS = {"a": A, "b": B, "c": C, "new": NEW, "world": WORLD, "node": NODE}
LOCAL = {"a": "pca", "b": "pcb"}  # pod -> the host's side of its veth
UPLINK = "pcup"
GROUP = 112
"""Of the devices that a node begins with."""
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


def run_through(
    fd: int, frame: bytes, ifindex: int, ingress_ifindex: int, mark: int = 0, gso_size: int = 0
) -> tuple[int, bytes]:
    """A program's verdict on a frame, and the frame as it leaves the program.

    With `gso_size` the frame is merged segments of that size.
    """
    given = ctypes.create_string_buffer(frame, len(frame))
    out = ctypes.create_string_buffer(65536)
    ctx = bytearray(192)
    struct.pack_into("=I", ctx, 8, mark)
    struct.pack_into("=II", ctx, 36, ingress_ifindex, ifindex)
    struct.pack_into("=I", ctx, 176, gso_size)
    held = ctypes.create_string_buffer(bytes(ctx), len(ctx))
    attr = bytearray(80)
    addresses = ctypes.addressof(given), ctypes.addressof(out)
    struct.pack_into("=IIIIQQ", attr, 0, fd, 0, len(frame), len(out), *addresses)
    struct.pack_into("=IIIIQQ", attr, 32, 1, 0, len(ctx), 0, ctypes.addressof(held), 0)
    bpf_syscall.bpf(bpf_syscall.PROG_TEST_RUN, attr)
    verdict, _, size = struct.unpack_from("=iII", attr, 4)
    return verdict, out.raw[:size]


@dataclass
class NodeUnderTest:
    """Its files are below `folder`, its pins below `bpffs`; the caller is in its namespace."""

    folder: Path
    objects: Path
    bpffs: Path
    node_addresses: tuple[str, ...] = (NODE.ip4, NODE.ip6)
    """Those that the endpoints file says the node has."""
    node_labels: dict[str, str] = field(default_factory=dict)
    other_nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Other nodes of the endpoints file, and their addresses."""

    def __post_init__(self) -> None:
        self.ifindex: dict[str, int] = {}
        self.pins = Pins(self.bpffs)
        self.state_root = self.folder / "state"
        self.n_bundles = 0
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self._programs = ExitStack()
        self._fds: dict[str, int] = {}

    def make_devices(self) -> None:
        """One veth pair a local pod, and an uplink that packets can say they came in by."""
        # The devices would discover neighbours by themselves, and be counted.
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        with network() as own:
            own.up("lo")
        for device in (*LOCAL.values(), UPLINK):
            self.make_device(device)

    def make_device(self, name: str) -> None:
        """One veth pair, up."""
        with network() as own:
            own.add_pod_pair(name, f"{name}.p", group=GROUP)
            own.up(name)
            own.up(f"{name}.p")
            self.ifindex[name] = own.index(name)

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
        own = self.node_addresses, self.node_labels
        path.write_text(endpoints_json("node-1", entries, *own, self.other_nodes))
        return path

    def load(
        self,
        policy: TablePolicy,
        *,
        objects: Path | None = None,
        entries: list[dict[str, object]] | None = None,
        mode: Mode = "auto",
        forward: Forwarding = "redirect",
        services: Sequence[JsonValue] | None = None,
        uplinks: Sequence[str] = (),
        return_path: Outside = "tunnel",
        masquerade: Masquerade | None = None,
        open_ports: Mapping[Side, str] | None = None,
        reassemble: bool = False,
        xdp_mode: xdp.Mode | None = None,
        service_cidr: Sequence[str] = (),
        resets: bool = False,
        placer: type[NamePlacer] = NamePlacer,
    ) -> Loaded:
        self._forget_programs()
        return runtime.load(
            LoadRequest(
                bundle=self.bundle(policy, objects),
                endpoints=self.endpoints(entries),
                bpffs=self.bpffs,
                mode=mode,
                forwarding=forward,
                state_root=self.state_root,
                services=services,
                uplinks=uplinks,
                outside=return_path,
                masquerade=masquerade,
                xdp_mode=xdp_mode,
                failsafe_ports=open_ports or {},
                reassemble=reassemble,
                service_cidrs=service_cidr,
                resets=resets,
            ),
            placer=placer,
            warn=self.warnings.append,
            note=self.notes.append,
        )

    def serve(self, services: Sequence[JsonValue]) -> None:
        """Replace the Services of the loaded node."""
        update_services(
            services,
            bpffs=self.bpffs,
            state_root=self.state_root,
            note=self.notes.append,
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

    def sends_from_outside(self, frame: bytes) -> None:
        """Send to the uplink, from its other side."""
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind((f"{UPLINK}.p", 0))
            wire.send(frame)

    def sent_to(self, pod: str, frame: bytes, came_in: str = UPLINK) -> bool:
        """Whether a frame that came in by some device passes on to the pod."""
        return self._run("pc_to_pod", frame, LOCAL[pod], came_in=came_in)

    def sent_by_node_to(self, pod: str, frame: bytes) -> bool:
        """Whether a frame that was generated on the node passes on to the pod."""
        return self._run("pc_to_pod", frame, LOCAL[pod], came_in=None)

    def leaves(self, pod: str, frame: bytes) -> bytes | None:
        """The pod's frame as it reaches the node's stack. None if it is dropped."""
        return self._run_through("pc_from_pod", frame, LOCAL[pod], came_in=LOCAL[pod])

    def answered(self, pod: str, frame: bytes) -> tuple[int, bytes]:
        """The verdict on the pod's frame, and what has become of it."""
        with bpf_syscall.obj_get(self.pins.hook("pc_from_pod")) as fd:
            device = self.ifindex[LOCAL[pod]]
            return run_through(fd, frame, device, device)

    def arrives(self, pod: str, frame: bytes, came_in: str | None = UPLINK) -> bytes | None:
        """The frame as the pod gets it; None if it is dropped. `came_in` None: made on the node."""
        return self._run_through("pc_to_pod", frame, LOCAL[pod], came_in)

    def comes_in(self, frame: bytes) -> bytes | None:
        """The external frame as it reaches the node's stack. None if it is dropped."""
        return self._run_through("pc_from_uplink", frame, UPLINK, came_in=UPLINK)

    def goes_out(self, frame: bytes, pod: str | None = "a", uplink: str = UPLINK) -> bytes | None:
        """A pod's frame as it leaves the node; `pod` None: the node's own."""
        came_in = LOCAL[pod] if pod else None
        return self._run_through("pc_to_uplink", frame, uplink, came_in)

    def _run_through(
        self, program: str, frame: bytes, device: str, came_in: str | None
    ) -> bytes | None:
        came_in_by = self.ifindex[came_in] if came_in else 0
        with bpf_syscall.obj_get(self.pins.hook(program)) as fd:
            verdict, out = run_through(fd, frame, self.ifindex[device], came_in_by)
        assert verdict in (NEXT, DROP), verdict
        return out if verdict == NEXT else None

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

    def expire_connections(self, family: int = 4, ports: Collection[int] = (), at: int = 1) -> None:
        """Let the idle time of every connection, or of those of the ports, end at that tick."""
        field = self.layout("pc_ct").fields["expires"]
        place, size = field.offset, field.size
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
                    value[place : place + size] = struct.pack("=Q", at)
                    bpf_syscall.map_update(fd, key, bytes(value))

    def evict_connections(self, family: int, ports: Collection[int]) -> None:
        """Take away every entry that has one of the ports, whatever its table evicts."""
        key_of = self.layout(f"pc_ct{family}_key")
        wanted = {struct.pack("!H", port) for port in ports}
        for name in (f"pc_ct{family}", f"pc_ct{family}_new"):
            with self.shared_map(name) as fd:
                info = bpf_syscall.map_info(fd)
                for key in list(bpf_syscall.map_keys(fd, info.key_size)):
                    of = key_of.unpack(key)
                    if wanted & {of["lo_port"], of["hi_port"]}:
                        bpf_syscall.map_delete(fd, key)

    def layout(self, name: str) -> StructLayout:
        return Btf.of_object(self.objects / "hooks.bpf.o").struct(name)

    def enum(self, name: str) -> dict[str, int]:
        return Btf.of_object(self.objects / "hooks.bpf.o").enum(name)

    def _forget_programs(self) -> None:
        self._programs.close()
        self._fds.clear()

    def close(self) -> None:
        """Nothing runs on any packet when this returns; the namespace's own end would take longer."""
        self._forget_programs()
        with network() as own:
            own.remove_group(GROUP)  # all at once: each by itself waits for RCU
            for device in {name for _, name in socket.if_nameindex()} - {"lo"}:
                own.remove(device)
