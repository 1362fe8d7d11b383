# SPDX-License-Identifier: Apache-2.0
"""The state of this node now, from the kernel, with names from the last load's record."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from policyc.runtime import switch
from policyc.runtime.attach import (
    attach,
    bypass,
    denied_devices,
    hook_programs,
    leftovers,
    network,
    socket_listing,
    xdp,
)
from policyc.runtime.attach.program_slot import FIRST
from policyc.runtime.attach.xdp import XdpUplink
from policyc.runtime.devices import ipsec, reassembly, tunnel
from policyc.runtime.endpoints import endpoint_maps
from policyc.runtime.endpoints.double_buffer import TABLES
from policyc.runtime.endpoints.endpoint_tables import CAPACITY
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import (
    bpf_syscall,
    host,
)
from policyc.runtime.kernel.per_cpu import per_cpu_sums
from policyc.runtime.kernel.pins import (
    DEFAULT_ROOT,
    Pins,
)
from policyc.runtime.load import quotas
from policyc.runtime.load.resources.programs import POLICY_PROGRAM
from policyc.runtime.maps.pinned_map import MissingMapError
from policyc.runtime.maps.settings import FirstPacketSettings
from policyc.runtime.maps.sockets import SocketPods
from policyc.runtime.maps.xdp import XdpCounts
from policyc.runtime.observe import bypass_status
from policyc.runtime.observe.bypass_status import BypassStatus
from policyc.runtime.observe.program_status import ProgramStatus, programs_of
from policyc.runtime.observe.rule_names import place_of, rules_by_id
from policyc.runtime.services import tables as service_tables
from policyc.runtime.state import DEFAULT_ROOT as DEFAULT_STATE
from policyc.runtime.state import (
    Generation,
    LoadedEndpoint,
    LoadedHost,
    LoadedMasquerade,
    StateDir,
)

SCHEMA = "policyc.dev/node-status/v1"
_LONGEST, _PAUSE = 10.0, 0.02  # seconds
_COUNTED = (
    "pc_if",
    *("pc_ct4", "pc_ct4_new", "pc_ct6", "pc_ct6_new"),
    *("pc_frag4", "pc_frag6"),
    "pc_snat_entries",
)


@dataclass(frozen=True, slots=True)
class MapStatus:
    """How full a map is; `used` is None if every entry always exists (arrays).

    For tables by address it counts addresses, and so does `entries`.
    """

    name: str
    used: int | None
    entries: int


@dataclass(frozen=True, slots=True)
class RuleCount:
    """What a rule decided: all packets that it denied, and first packets of flows that it allowed.

    A rule that makes notes (log, audit) counts what matched it, whatever decided. `bytes` start at the
    Ethernet header; None if the bundle counts only packets.
    """

    rule: int
    packets: int
    action: str
    where: str  # policies, file:line
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """Everything that `policyc node status` shows."""

    node: str
    bundle: str
    bundle_digest: str
    epoch: int
    slot: int
    forwarding: str  # "redirect" or "stack", as the load's option
    uplinks: tuple[str, ...]
    outside: str  # "tunnel", "dsr", ...: paths of a client that came to another node
    programs: tuple[ProgramStatus, ...]
    endpoints: tuple[LoadedEndpoint, ...]
    maps: tuple[MapStatus, ...]
    rules: tuple[RuleCount, ...]  # rules with counts
    drops: dict[str, int]  # reason -> packets, for reasons that occurred
    unprotected: tuple[str, ...]  # devices that lack a hook of ours now
    cgroup: str = ""  # its processes reach Services by socket hooks; empty: none
    socket_pods: int | None = None  # pods that they serve, too; None: no such option
    connect_deny: bool = False  # a pod's connect() that policy denies fails
    bypass: BypassStatus | None = None  # TCP data from socket to socket; None: no such option
    masquerade: LoadedMasquerade | None = None  # SNAT; None: pods keep their address
    host: LoadedHost | None = None  # the node under host policy
    service_cidrs: tuple[str, ...] = ()  # targets of our routes, for processes outside cgroup
    reassembly: dict[str, int] | None = None  # reassembled fragments; None: no reassembly
    tunnel: dict[str, int] | None = None
    """Packets to and from other nodes, and those of them by the VXLAN device; None: no tunnel."""
    has_ipsec: bool = False  # the host has IPsec policies: uplinks have no fast path
    first_packets: bool = False  # they may use the fast path
    first_packets_by_uplinks: bool = False  # also to and from ends beyond an uplink
    services_outside: dict[str, int] = field(default_factory=dict)
    """Addresses and ports of Services with their own return path: "tunnel", "dsr" -> how many."""
    xdp: tuple[XdpUplink, ...] = ()  # where XDP forwards packets to other nodes
    missing_devices: tuple[str, ...] = ()  # pods of this node without a device at the load
    services_unfinished: bool = False  # a killed change of Services left it incomplete
    services_left_out: dict[str, int] = field(default_factory=dict)
    """Counts of what is not active of the Services, as runtime/services/all_objects.py counts it."""

    denied_devices: tuple[str, ...] = ()  # without an endpoint: no packet passes
    deny_devices: tuple[str, ...] = ()  # patterns of devices that are denied without an endpoint
    resets_revoked: bool = False  # senders in revoked connections get a reset
    external_cidrs: tuple[str, ...] = ()  # allowed ranges of externalIPs; empty: any
    refused: tuple[quotas.FullQuota, ...] = ()  # how often their quotas were full
    in_progress: str = ""  # the present command: a key of command_lock.AT_WORK

    def to_json(self) -> dict[str, Any]:
        """The status as plain values, with the name of its schema."""
        return {"schema": SCHEMA, **asdict(self)}


def status(*, bpffs: Path = DEFAULT_ROOT, state_root: Path = DEFAULT_STATE) -> NodeStatus | None:
    """Ask the kernel; None if nothing is loaded."""
    return status_and_command(bpffs, state_root)[0]


def status_and_command(
    bpffs: Path, state_root: Path = DEFAULT_STATE
) -> tuple[NodeStatus | None, str | None]:
    """The status, and the command that changes the node meanwhile, as `StateDir.at_work` has it.

    If that command removes something during the read, the read starts again. The node counts as half
    loaded only if no command is running that will finish it.
    """
    host.require_root()
    where = Pins(bpffs)
    state = StateDir(bpffs, state_root)
    deadline = time.monotonic() + _LONGEST
    is_second = False
    while True:
        before, command = _epoch(where), state.at_work()
        try:
            found = _asked(where, state, is_changing=command is not None)
            return (replace(found, in_progress=command or "") if found else None), command
        except (FileNotFoundError, HostError) as error:
            is_changing = command is not None or state.at_work() is not None
            is_still = not is_changing and before == _epoch(where)
            if (is_still and is_second) or time.monotonic() >= deadline:
                if isinstance(error, HostError) and not isinstance(error, MissingMapError):
                    raise
                raise _half_loaded() from error
            is_second = is_still
        time.sleep(_PAUSE)


def _epoch(where: Pins) -> int:
    """The epoch; 0 also if the pin vanishes during the call."""
    try:
        return switch.read(where.map("pc_state")).epoch
    except FileNotFoundError:
        return 0


def _asked(where: Pins, state: StateDir, is_changing: bool) -> NodeStatus | None:
    network.require_here(where, state)
    hook_programs.require_shared_maps(where)
    word = switch.read(where.map("pc_state"))
    if word.epoch == 0:
        if where.is_any() and not is_changing:
            raise _half_loaded()
        return None
    generation = state.read(word.epoch)
    if generation is None:
        raise HostError(
            f"the record of the loaded epoch {word.epoch} is missing",
            "load again; the current policy stays in force",
        )
    return _status(where, generation, word, state)


def _half_loaded() -> HostError:
    return HostError(
        "this node is partly loaded: a command was interrupted", "load or unload again"
    )


def _status(where: Pins, generation: Generation, word: switch.Word, state: StateDir) -> NodeStatus:
    programs, unprotected = programs_of(where, generation)
    return NodeStatus(
        node=generation.node,
        bundle=generation.bundle,
        bundle_digest=generation.bundle_digest,
        epoch=word.epoch,
        slot=word.slot,
        forwarding=generation.forwarding,
        uplinks=tuple(at.interface for at in generation.attachments if at.role == "uplink"),
        outside=generation.outside,
        programs=programs,
        endpoints=generation.endpoints,
        maps=_maps(where, generation),
        rules=_rules(where, generation),
        drops=_drops(where, generation),
        unprotected=unprotected,
        cgroup=generation.cgroup,
        connect_deny=generation.connect_deny,
        bypass=bypass_status.of(where, generation),
        socket_pods=_socket_pods(where, generation),
        masquerade=generation.masquerade,
        host=generation.host,
        service_cidrs=generation.service_cidrs,
        reassembly=_reassembly(where, generation),
        tunnel=_tunnel(where, generation),
        has_ipsec=ipsec.has_policies(),
        first_packets=bool(FIRST.program(where)),
        first_packets_by_uplinks=_first_packets_by_uplinks(where),
        services_outside=service_tables.ways_back(where),
        xdp=_xdp(where),
        missing_devices=tuple(each.title for each in generation.endpoints if each.is_missing),
        services_unfinished=service_tables.is_unfinished(where),
        services_left_out=state.left_out(),
        denied_devices=_denied(where, generation),
        deny_devices=generation.deny_devices,
        resets_revoked=generation.resets_revoked,
        external_cidrs=generation.external_cidrs,
        refused=quotas.read(where, generation),
    )


def _socket_pods(where: Pins, generation: Generation) -> int | None:
    if not generation.cgroup or generation.socket_services != "pods":
        return None
    with SocketPods(where) as pods:
        return len(pods.all_keys())


def _denied(where: Pins, generation: Generation) -> tuple[str, ...]:
    """Devices without an endpoint that let no packet pass."""
    return tuple(
        denied_devices.name_of(at.ifindex)
        for at in leftovers.kept(generation)
        if attach.is_whole(where, at) and attach.is_there(at)
    )


def _xdp(where: Pins) -> tuple[XdpUplink, ...]:
    pin = where.map(XdpCounts.NAME)
    return xdp.uplinks(where, per_cpu_sums(pin)) if pin.exists() else ()


def _maps(where: Pins, generation: Generation) -> tuple[MapStatus, ...]:
    found = [MapStatus(name, endpoint_maps.n_addresses(where, name), CAPACITY) for name in TABLES]
    for name in _COUNTED:
        with bpf_syscall.obj_get(where.map(name)) as fd:
            info = bpf_syscall.map_info(fd)
            used = sum(count for _, _, count in bpf_syscall.map_items_batch(fd, info))
        found.append(MapStatus(name, used, info.max_entries))
    for name, (used, room) in service_tables.usage(where).items():
        found.append(MapStatus(name, used, room))
    for pin in sorted(where.generation(generation.epoch).iterdir()):
        if pin.name not in (POLICY_PROGRAM, bypass.DENIED, *socket_listing.NAMES):
            with bpf_syscall.obj_get(pin) as fd:
                found.append(MapStatus(pin.name, None, bpf_syscall.map_info(fd).max_entries))
    return tuple(found)


def _rules(where: Pins, generation: Generation) -> tuple[RuleCount, ...]:
    """The counters; none if the bundle was compiled without."""
    pin = where.generation(generation.epoch) / "pc_counts"
    if not pin.exists():
        return ()
    known = rules_by_id(generation)
    return tuple(
        RuleCount(
            ident,
            sums[0],
            str(known.get(ident, {}).get("action", "")),
            place_of(known.get(ident, {})),
            sums[1] if len(sums) > 1 else None,
        )
        for ident, sums in sorted(_sums_by_rule(per_cpu_sums(pin), known).items())
        if sums[0]
    )


def _sums_by_rule(
    counted: list[tuple[int, ...]], known: Mapping[int, dict[str, Any]]
) -> dict[int, tuple[int, ...]]:
    """The counts of each rule.

    A decision with notes counts for its rule, and for each rule that made one of the notes.
    """
    found: dict[int, tuple[int, ...]] = {}
    for ident, sums in enumerate(counted):
        rule = known.get(ident, {})
        for its_rule in (rule.get("of", ident), *rule.get("notes", ())):
            before = found.get(its_rule, (0,) * len(sums))
            found[its_rule] = tuple(map(int.__add__, before, sums))
    return found


def _drops(where: Pins, generation: Generation) -> dict[str, int]:
    names = {value: name for name, value in generation.drop_reasons.items()}
    return {
        names.get(i, str(i)).removeprefix("PC_DROP_").lower().replace("_", " "): packets
        for i, (packets,) in enumerate(per_cpu_sums(where.map("pc_drops")))
        if packets
    }


def _reassembly(where: Pins, generation: Generation) -> dict[str, int] | None:
    """Counts of fragments: sent to reassembly, returned, and above the limit."""
    if not any(at.role == "reassembly" for at in generation.attachments):
        return None
    counts = per_cpu_sums(where.map(reassembly.COUNTS))
    return {name: n for name, (n,) in zip(("sent", "back", "over"), counts, strict=True)}


def _first_packets_by_uplinks(where: Pins) -> bool:
    if not FIRST.program(where) or not FirstPacketSettings.is_there(where):
        return False
    with FirstPacketSettings(where) as settings:
        return settings.has_other_nodes


def _tunnel(where: Pins, generation: Generation) -> dict[str, int] | None:
    """Counts of packets: sent and received by the hooks, and by the VXLAN device."""
    pin = where.map(tunnel.COUNTS)
    if not pin.exists() or not any(at.role == "tunnel" for at in generation.attachments):
        return None
    names = ("sent", "sent_by_device", "received", "received_by_device")
    return {name: n for name, (n,) in zip(names, per_cpu_sums(pin), strict=True)}
