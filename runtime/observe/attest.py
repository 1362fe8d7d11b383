# SPDX-License-Identifier: Apache-2.0
"""Attests that this node runs what a bundle and an endpoints file say, by asking the kernel.

Programs are loaded again from the bundle, without attaching them. Their tags are compared with those of
the attached programs, and of the programs that hooks call. Each must use exactly the pinned maps. The
tables are built again, as a load builds them, and every entry is compared. The load's record gives the
numbers of endpoints, which are arbitrary, and the load's options (`--forwarding`, `--uplink`,
`--attach`).
"""

import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from policyc.runtime import (
    command_lock,
    switch,
)
from policyc.runtime.attach import (
    attach,
    bypass,
    hook_programs,
    netkit,
    network,
    slaves,
    tcx,
)
from policyc.runtime.attach.program_slot import FROM_TUNNEL, TUNNEL_HOOK
from policyc.runtime.bundle.bundle import (
    HOOKS_OBJECT,
    Bundle,
    read_bundle,
)
from policyc.runtime.command_lock import Patience
from policyc.runtime.endpoints import (
    endpoint_maps,
    forwarding,
    pod_devices,
)
from policyc.runtime.endpoints import slaves as pod_slaves
from policyc.runtime.endpoints.endpoints import (
    EndpointsFile,
    read_endpoints,
)
from policyc.runtime.endpoints.local_devices import local_devices
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import (
    bpf_syscall,
    host,
)
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.kernel.pins import (
    DEFAULT_ROOT,
    Pins,
)
from policyc.runtime.load.resolving import (
    Roster,
    assign_ids,
)
from policyc.runtime.observe.attested_bypass import bypass_faults
from policyc.runtime.observe.attested_first_packets import first_packet_faults
from policyc.runtime.observe.attested_maps import (
    foreign,
    images_of,
)
from policyc.runtime.observe.attested_prerouting import prerouting_faults
from policyc.runtime.observe.attested_programs import POLICY_PROGRAM, Programs
from policyc.runtime.observe.attested_slaves import slave_faults
from policyc.runtime.observe.attested_sockets import socket_faults
from policyc.runtime.policy import (
    host_policy,
    revoked,
)
from policyc.runtime.policy.tables import PolicyTables
from policyc.runtime.state import DEFAULT_ROOT as DEFAULT_STATE
from policyc.runtime.state import Attachment, Generation, LoadedEndpoint, StateDir, unheard

SCHEMA = "policyc.dev/attest-result/v1"
MOST_FAULTS = 20
"""How many differences of a part are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class AttestedPart:
    """A compared part: how many items, and which of them differ."""

    what: str
    compared: int
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attested:
    """The compared parts, and what is not compared."""

    bundle: str
    manifest: str
    epoch: int
    parts: tuple[AttestedPart, ...]
    left_out: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether no part differs."""
        return not any(part.faults for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        """docs/schemas/attest-result-v1.schema.json."""
        return {"schema": SCHEMA, "attested": self.is_good, **asdict(self)}


LEFT_OUT = (
    "tables of Services, nodes, SNAT and failsafe ports: their contents come from the options of the "
    "load",
    "conntrack and fragment entries: an entry admits its packets, whichever process wrote it",
    "counters, events, rate limits, scratch maps",
    "XDP, other programs on the same devices and cgroups, programs that replace functions of "
    "policyc's programs",
    "the list of uplinks and the way hooks are attached: the record of the load is trusted",
)


def attest(
    bundle_path: Path,
    endpoints_path: Path,
    *,
    digest: str = "",
    patience: Patience = command_lock.NONE,
    bpffs: Path = DEFAULT_ROOT,
    state_root: Path = DEFAULT_STATE,
) -> Attested:
    """Compare; HostError if nothing is loaded, or its record is lost.

    `digest`: the bundle's manifest must have this SHA-256. This waits for another command to end.
    """
    bundle = read_bundle(bundle_path)
    if digest and bundle.digest != digest:
        raise InputError(f"{bundle_path}: the bundle changed after it was proved")
    file = read_endpoints(endpoints_path)
    if bundle.node not in ("", file.node):
        raise InputError(
            f"{bundle_path} is for the node {bundle.node}, {endpoints_path} for {file.node}"
        )
    host.require_root()
    where, state = Pins(bpffs), StateDir(bpffs, state_root)
    with state.lock("attest", patience):
        network.require_here(where, state)
        hook_programs.require_shared_maps(where)
        if not where.is_there() or not (word := switch.read(where.map("pc_state"))).epoch:
            raise HostError("nothing is loaded on this node", "policyc node load BUNDLE")
        generation = state.read(word.epoch)
        if generation is None:
            raise HostError(
                f"there is no record of the load in force (epoch {word.epoch})",
                "load again: only that record holds the ids of endpoints",
            )
        parts = tuple(_Live(where, bundle, (endpoints_path, file), generation, word).parts())
        return Attested(str(bundle_path), bundle.digest, word.epoch, parts, LEFT_OUT)


class _Live:
    """What runs, beside what should run."""

    def __init__(
        self,
        pins: Pins,
        bundle: Bundle,
        source: tuple[Path, EndpointsFile],
        generation: Generation,
        word: switch.Word,
    ) -> None:
        path, file = source
        self.pins, self.bundle, self.file, self.generation = pins, bundle, file, generation
        self.word = word
        known_missing = {each.title for each in generation.endpoints if each.is_missing}
        sought = [each for each in file.endpoints if str(each) not in known_missing]
        self.devices = local_devices(sought)
        at_uplinks = {
            at.interface: at.ifindex for at in generation.attachments if at.role == "uplink"
        }
        found = pod_slaves.found(path, sought, at_uplinks, "refuse", unheard)
        self.slaves = slaves.numbered(pins, found.values())
        self.programs = Programs(pins, bundle, generation)

    def parts(self) -> Iterator[AttestedPart]:
        """The parts, one after the other; the programs first, because they name the maps."""
        yield self._part("programs: tags and maps", *self._programs())
        yield self._part("devices: hooks", *self._hooks())
        yield self._part("policy tables", *self._tables())
        yield self._part("endpoints: addresses and devices", *self._endpoints())
        if self.generation.cgroup:
            compared, faults = socket_faults(
                self.pins, self.programs, self.file, self.generation, self._wanted[0]
            )
            yield self._part("sockets: hooks and pods", compared, faults)
        if self.generation.bypass or bypass.SLOT.program(self.pins):
            compared, faults = bypass_faults(self.pins, self.programs, self.generation)
            yield self._part("bypass: programs, pods and rules", compared, faults)

    def _part(self, what: str, compared: int, faults: list[str]) -> AttestedPart:
        shown = faults[:MOST_FAULTS]
        if len(faults) > MOST_FAULTS:
            shown.append(f"and {len(faults) - MOST_FAULTS} more")
        return AttestedPart(what, compared, tuple(shown))

    def _programs(self) -> tuple[int, list[str]]:
        """Check the programs that the hooks call, and the pinned programs."""
        faults = list(self._flags())
        with bpf_syscall.obj_get(self.pins.map("pc_policy")) as fd:
            value = bpf_syscall.map_lookup(fd, struct.pack("=I", self.word.slot), 4)
        if value is None:
            faults.append("pc_policy: the active slot has no policy program")
        else:
            (ident,) = struct.unpack("=I", value)
            faults += self.programs.differences(ident, POLICY_PROGRAM, "pc_policy")
        faults += self._tunnel_slot()
        faults += first_packet_faults(self.pins, self.programs, self.generation)
        faults += self._resets()
        for name in sorted(attach.PROGRAMS):
            pin = self.pins.hook(name)
            if not pin.exists():
                faults.append(f"{name}: there is no such program")
                continue
            with bpf_syscall.obj_get(pin) as fd:
                faults += self.programs.differences(bpf_syscall.prog_info(fd).id, name, str(pin))
        return 2 + len(attach.PROGRAMS), faults

    def _tunnel_slot(self) -> list[str]:
        """Check the program that the uplinks' hook calls. Hooks of earlier releases have no slot."""
        if not FROM_TUNNEL.is_there(self.pins):
            return []
        called = FROM_TUNNEL.program(self.pins)
        if not called:
            return [f"{FROM_TUNNEL.name}: no program is called"]
        return list(self.programs.differences(called, TUNNEL_HOOK, FROM_TUNNEL.name))

    def _flags(self) -> Iterator[str]:
        """Check the flags of the active word, which the load derives from bundle and options."""
        due = {
            "has_host": host_policy.host_subject(self.bundle, self.file) is not None,
            "binds_own_node": self.bundle.binds_own_node,
            "masquerades": self.generation.masquerade is not None,
        }
        for name, wanted in due.items():
            if getattr(self.word, name) != wanted:
                yield f"pc_state: {name} is {not wanted}, expected {wanted}"

    def _resets(self) -> Iterator[str]:
        """Check that a program resets revoked connections exactly if the load enables resets."""
        ident = revoked.program_id(self.pins.generation(self.generation.epoch))
        if bool(ident) != self.generation.resets_revoked:
            found = "are" if ident else "are not"
            state = f"revoked connections {found} reset"
            yield f"{revoked.MAP}: {state}, contrary to the options of the load"
        elif ident:
            yield from self.programs.differences(ident, revoked.PROGRAM, revoked.MAP)

    def _hooks(self) -> tuple[int, list[str]]:
        faults, compared = [], 0
        recorded = {at.ifindex: at for at in self.generation.attachments}
        for name, ifindex in self.devices.items():
            if ifindex not in recorded:
                faults.append(f"{name}: the device of a pod has no hooks")
        for at in recorded.values():
            for hook in attach.hooks_at(at):
                compared += 1
                faults += self._attached(at, hook)
        for name, side, ident in netkit.attached(self.pins):
            compared += 1
            where = f"{name} (netkit {side})"
            faults += self.programs.differences(ident, netkit.PROGRAM, where)
        at_slaves, wrong = slave_faults(self.pins, self.bundle, self.generation)
        at_netfilter, open_there = prerouting_faults(
            self.pins, self.bundle, self.programs, self.generation
        )
        return compared + at_slaves + at_netfilter, faults + wrong + open_there

    def _attached(self, at: Attachment, hook: attach.Hook) -> Iterator[str]:
        ident = attach.attached_program(self.pins, at, hook)
        where = f"{at.interface} ({at.kind}, {hook.direction})"
        is_elsewhere = self._is_elsewhere(at, hook)
        if ident is None or is_elsewhere:
            yield f"{where}: {hook.program} is not attached"
        else:
            yield from self.programs.differences(ident, hook.program, where)

    def _is_elsewhere(self, at: Attachment, hook: attach.Hook) -> bool:
        """Whether the link that is pinned for this device belongs to another one."""
        if at.kind != tcx.KIND:
            return False
        link = tcx.find(self.pins.link(at.ifindex, hook.program))
        return link is None or (link.ifindex, link.attach_type) != (at.ifindex, hook.tcx_type)

    @cached_property
    def _wanted(self) -> tuple[tuple[LoadedEndpoint, ...], PolicyTables]:
        """The endpoints as the load placed them, and the tables that placed them."""
        tables = PolicyTables(self.bundle)
        subject = host_policy.host_subject(self.bundle, self.file)
        peers = forwarding.with_peers(self.devices.values(), _forwarding(self.generation))
        roster = Roster(
            self.file.endpoints,
            {**self.devices, **self.slaves},
            self.file.nodes if tables.reads_nodes else (),
            self.file.node,
            peers,
            host_policy.with_addresses(subject, self.file) if subject else None,
            pod_devices.namespace_ids(self.devices.values()),
            self.file.own_node if self.bundle.binds_own_node else None,
        )
        known = self.generation.endpoints
        ids = assign_ids(roster, known, {each.id for each in known}, self.bundle.endpoints)
        return tuple(roster.place(tables, ids)), tables

    def _tables(self) -> tuple[int, list[str]]:
        """Check every entry of the maps in which verdicts are looked up."""
        endpoints, tables = self._wanted
        writes = tables.drain_writes()
        classes = {
            each.id: tuple(each.place[name] for name in tables.class_fields) for each in endpoints
        }
        names = {each.id: each.title for each in endpoints}
        folder = self.pins.generation(self.generation.epoch)
        faults, compared = [], 0
        for image in images_of(self.bundle, writes, classes):
            pin = folder / image.name
            if not pin.exists():
                faults.append(f"{image.name}: there is no such map")
                continue
            with bpf_syscall.obj_get(pin) as fd:
                compared += image.entries
                faults += image.differences(fd, names if image.name == "pc_class" else {})
        return compared, faults

    def _endpoints(self) -> tuple[int, list[str]]:
        """Check the endpoints that the hooks find by address and by device."""
        layout = Btf.of_object(self.bundle.path / HOOKS_OBJECT).struct("pc_endpoint")
        wanted = endpoint_maps.held_of(self._wanted[0], layout)
        found = endpoint_maps.present(self.pins, layout)
        faults = []
        for element in sorted(wanted.keys() | found.keys()):
            place = _place(element)
            if element not in found:
                faults.append(f"{place}: the endpoint is missing")
            elif element not in wanted:
                faults.append(f"{place}: {foreign(found[element])}, expected no endpoint")
            elif wanted[element] != found[element]:
                faults.append(
                    f"{place}: found {found[element].hex()}, expected {wanted[element].hex()}"
                )
        return len(wanted.keys() | found.keys()), faults


def _forwarding(generation: Generation) -> forwarding.Forwarding:
    if generation.forwarding == "redirect":
        return "redirect"
    if generation.forwarding == "stack":
        return "stack"
    raise InputError(
        f"the record of the load has an unknown forwarding mode: {generation.forwarding!r}"
    )


def _place(element: endpoint_maps.Element) -> str:
    """An address, or a device by its number."""
    name, key = element
    if name == endpoint_maps.DEVICES:
        return f"{name}: device {struct.unpack('=I', key)[0]}"
    return f"{name}: {ip_address(key)}"
