# SPDX-License-Identifier: Apache-2.0
"""Loading a bundle on a node, replacing the one before, and taking all of it away again.

    load(bundle, endpoints)     prepares everything, then switches by one word
    unload()                    detaches, and forgets

A load that fails, wherever it does, leaves the generation before it running and nothing of its own.
What it did is on a stack of undos, which the switch empties.
"""

import ipaddress
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from policyc.runtime import (
    command_lock,
    failsafes,
    switch,
)
from policyc.runtime.attach import (
    attach,
    hook_programs,
    leftovers,
    network,
    socket_hooks,
    xdp,
)
from policyc.runtime.attach.denied_devices import Patterns
from policyc.runtime.attach.hook_programs import HookPrograms
from policyc.runtime.bundle import signed_proof
from policyc.runtime.bundle.bundle import (
    HOOKS_OBJECT,
    POLICY_OBJECT,
    Bundle,
    read_bundle,
)
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.command_lock import Patience
from policyc.runtime.devices import (
    own_device,
    reassembly,
    route_mtu,
    route_rules,
    tunnel,
    uplinks,
)
from policyc.runtime.devices.uplinks import Outside
from policyc.runtime.endpoints import (
    endpoint_maps,
    forwarding,
    pod_devices,
)
from policyc.runtime.endpoints.endpoints import (
    EndpointsFile,
    read_endpoints,
)
from policyc.runtime.endpoints.local_devices import (
    Missing,
    local_devices,
    without_missing,
)
from policyc.runtime.endpoints.placement import Placer
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.failsafes import Failsafes, Side
from policyc.runtime.kernel import (
    bpf_syscall,
    clock,
    host,
    pins,
)
from policyc.runtime.kernel.btf import (
    Btf,
    StructLayout,
)
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import (
    DEFAULT_ROOT,
    Pins,
)
from policyc.runtime.load import (
    refusals,
    seeds,
)
from policyc.runtime.load.cluster_nodes import Nodes
from policyc.runtime.load.resolving import (
    Roster,
    assign_ids,
)
from policyc.runtime.policy import (
    host_policy,
    revoked,
)
from policyc.runtime.services import route as service_route
from policyc.runtime.snat import reserved_ports
from policyc.runtime.snat.snat import (
    Masquerade,
    Masquerading,
)
from policyc.runtime.state import DEFAULT_ROOT as DEFAULT_STATE
from policyc.runtime.state import (
    Attachment,
    Generation,
    LoadedHost,
    StateDir,
    Warn,
    to_nobody,
)
from policyc.runtime.undo import Undo

if TYPE_CHECKING:  # a load without Services imports nothing of theirs
    from policyc.runtime.services import maps as service_maps
    from policyc.runtime.services.all_objects import Served
    from policyc.runtime.services.claims import Ranges

POLICY_PROGRAM = "pc_policy_run"
PlacerFactory = Callable[[Bundle], Placer]

NO_PORTS: Mapping[Side, str] = {}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did, for the message afterwards."""

    generation: Generation
    replaced_epoch: int  # 0: nothing ran before
    hooks_replaced: bool
    closed: tuple[str, ...]  # pods that the tables had no room for: what has no cell is denied
    n_unnoted: int  # decisions that lost their notes, as rule ids had run out
    denied: tuple[str, ...]  # devices without an endpoint, under default deny


def load(
    bundle_path: Path,
    endpoints_path: Path,
    *,
    bpffs: Path = DEFAULT_ROOT,
    mode: attach.Mode = "auto",
    forward: forwarding.Forwarding = "redirect",
    uplink: Sequence[str] = (),
    way_back: Outside = "tunnel",
    masquerade: Masquerade | None = None,
    xdp_mode: xdp.Mode | None = None,
    state_root: Path = DEFAULT_STATE,
    placer: PlacerFactory | None = None,
    services: Sequence[JsonValue] | None = None,
    cgroup: Path | None = None,
    open_ports: Mapping[Side, str] = NO_PORTS,
    reassemble: bool = False,
    service_cidr: Sequence[str] = (),
    external: "Ranges | None" = None,
    proof_keys: Sequence[Path] = (),
    digest: str = "",
    missing: Missing = "refuse",
    deny: Patterns | None = None,
    resets: bool = False,
    strict_services: bool = False,
    patience: Patience = command_lock.NONE,
    warn: Warn = to_nobody,
    note: Warn = to_nobody,
) -> Loaded:
    """Load a bundle for these endpoints, in place of what is loaded, in this network namespace.

    `services` are Services and EndpointSlices; None leaves those that are loaded. Processes of `cgroup`
    that are in this network namespace reach them, too. `note` is told what of them the node cannot have,
    `warn` what is left out; with `strict_services` a wrong object is an `InputError`.
    `uplink` are the devices by which clients outside come in; `way_back` says how they are answered when
    they came to another node; `xdp_mode` is who hands what is known to other nodes by XDP, None: nobody.
    `masquerade` is how the node's pods leave by uplinks, None: as they are.
    `open_ports` are the failsafe ports of each side where they are not to be the usual ones
    (`failsafes.read_ports`). `reassemble`: fragments that come before their first one are put in order,
    if this kernel can; `warn` is told if not. `service_cidr` are ranges that the host's stack routes to
    Services, for what no hook of the cgroup sees. `external` are the ranges that externalIPs have to be
    in, None: those of the load before. `proof_keys`: one of them has to have signed a proof
    of the bundle; `digest`: its manifest has to have this SHA-256. `missing`: what is done when
    the device of a pod does not exist, or goes meanwhile. `deny` are patterns of devices that are under
    default deny without an endpoint, None: those of the load before. `resets`: who sends
    in the middle of a TCP connection that the policy denies gets a reset. `patience`: how long another
    command is waited for, which `unload` does too.
    """
    bundle = read_bundle(bundle_path)
    if digest and bundle.digest != digest:
        raise InputError(f"{bundle_path}: the bundle changed after it was proved")
    if proof_keys:
        signed_proof.require_proof(bundle, proof_keys)
    file = read_endpoints(endpoints_path)
    guarded = host_policy.guarded(bundle, file, uplink, open_ports, note)
    xdp.require_uplinks(xdp_mode, uplink, guarded is not None, note)
    routes = service_route.read(service_cidr, file, uplink, guarded is not None)
    if bundle.node not in ("", file.node):
        raise InputError(
            f"{bundle_path}: the bundle is for the node {bundle.node},"
            f" and {endpoints_path} for {file.node}",
            "load the bundle of this node, or one that was compiled without --node",
        )
    host.require_root()
    host.require_kernel(bundle.minimum_kernel)
    host.require_kernel_btf()
    host.require_not_realtime()
    pins.require_bpffs(bpffs)
    if cgroup is not None:
        socket_hooks.require_cgroup(cgroup)
    state = StateDir(bpffs, state_root)
    with state.lock("load", patience):
        network.require_here(Pins(bpffs), state)
        devices = local_devices(file.endpoints, missing, warn)
        pod_devices.require_hooks(endpoints_path, file.endpoints, devices, note)
        pod_devices.require_passed(uplink, devices)
        pod_devices.require_scrubbed(devices, uplink)
        plan = _Plan(
            *(bundle, file, devices, mode, forward, tuple(uplink), way_back, masquerade, cgroup),
            *(guarded, reassemble, xdp_mode, routes, missing, deny, resets),
            *(services, external, strict_services),
        )
        loading = _Loading(Pins(bpffs), state, plan, warn, note)
        return loading.run(placer or _tables)


def unload(
    *,
    bpffs: Path = DEFAULT_ROOT,
    state_root: Path = DEFAULT_STATE,
    patience: Patience = command_lock.NONE,
    warn: Warn = to_nobody,
) -> bool:
    """Detach from every device and remove every pin. False when nothing was loaded."""
    host.require_root()
    where = Pins(bpffs)
    state = StateDir(bpffs, state_root)
    with state.lock("unload", patience):
        is_reachable = network.is_reachable(where, state, warn)
        word = switch.read(where.map("pc_state"))
        generation = state.remembered(word.epoch, warn)
        was_there = where.is_there()
        if is_reachable:
            on_record = leftovers.is_all_on_record(where, generation)
            others = leftovers.others(where, generation, (), on_record, warn)
            tunnel.remove()  # before its hook: nobody asks who sends then
            reassembly.remove(state.reassembly)
            service_route.remove()
            for attachment in others:
                attach.detach(where, attachment)
            reserved_ports.settle(state, range(0), warn)
        else:
            state.set_reserved(())  # of a namespace that is no more
        reassembly.forget(state.reassembly)
        leftovers.drop_links(where)
        xdp.keep_only(where, ())
        socket_hooks.keep_only(where, epoch=0)
        where.remove()
        state.clear()
    return was_there


def _tables(bundle: Bundle) -> Placer:
    from policyc.runtime.policy.tables import PolicyTables

    return PolicyTables(bundle)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be loaded, and how."""

    bundle: Bundle
    file: EndpointsFile
    devices: dict[str, int]
    mode: attach.Mode
    forward: forwarding.Forwarding
    uplinks: tuple[str, ...]
    way_back: Outside
    masquerade: Masquerade | None
    cgroup: Path | None
    guarded: host_policy.Guarded | None
    reassemble: bool
    xdp_mode: xdp.Mode | None
    routes: tuple[service_route.Route, ...]
    missing: Missing
    deny: Patterns | None
    resets: bool
    services: Sequence[JsonValue] | None
    external: "Ranges | None"
    strict_services: bool


class _Loading:
    """One load, step by step."""

    def __init__(self, where: Pins, state: StateDir, plan: _Plan, warn: Warn, note: Warn) -> None:
        self.pins = where
        self.state = state
        self.plan = plan
        self.warn = warn
        self.bundle, self.file = plan.bundle, plan.file
        self.kind = attach.kind_for(plan.mode)
        self.devices = dict(plan.devices)
        self.uplinks = uplinks.find(plan.uplinks, self.devices)
        self.masquerading = Masquerading(
            where, plan.masquerade, self.uplinks, plan.file.own_addresses
        )
        self.ports = plan.masquerade.ports if plan.masquerade else range(0)
        self.note = note
        self.cgroup = plan.cgroup
        self.with_peers = forwarding.with_peers(self.devices.values(), plan.forward)
        self.before_word = switch.read(where.map("pc_state"))
        self.word = replace(
            self.before_word.next,
            masquerades=plan.masquerade is not None,
            has_host=plan.guarded is not None,
            binds_own_node=plan.bundle.binds_own_node,
        )
        self.before = state.remembered(self.before_word.epoch, warn)
        self.on_record = leftovers.is_all_on_record(where, self.before)
        self.deny = self._kept(plan.deny, "deny_devices", "--deny-devices")
        self.external = self._kept(
            None if plan.external is None else tuple(map(str, plan.external)),
            *("external_cidrs", "--external-cidr"),
        )
        self.served = self._serve()

    def _kept(self, given: Patterns | None, name: str, option: str) -> Patterns:
        """What the option says, else what it said before."""
        if given is not None:
            return given
        if self.before_word.epoch and not self.before:
            self.warn(f"the previous value of {option} is lost: give it again")
        found: Patterns = getattr(self.before, name, ())
        return found

    def _serve(self) -> "Served | None":
        plan, file = self.plan, self.file
        if plan.services is None:
            return None
        from policyc.runtime.services.all_objects import serve
        from policyc.runtime.services.services import OwnNode

        own = OwnNode(file.node, file.own_addresses, file.own_zone, self.ports, file.pods)
        ranges = tuple(map(ipaddress.ip_network, self.external))
        return serve(plan.services, own, ranges, self.note, self.warn, plan.strict_services)

    def run(self, placer: PlacerFactory) -> Loaded:
        with ExitStack() as objects, Undo() as undo:
            self._make_room(undo)
            self._reserve_ports(undo)
            digest = self.before.hooks_digest if self.before else ""
            hooks = objects.enter_context(
                hook_programs.opened(self.pins, self.bundle, digest, undo)
            )
            policy = objects.enter_context(Object(self.bundle.path / POLICY_OBJECT, self.pins.maps))
            policy.load()
            tables = placer(self.bundle)
            nodes = Nodes(self.pins, self.file)
            route = service_route.make(self.plan.routes, self.kind, undo)
            ours = (*self._tunnel(nodes, undo), *self._detour(undo), *route)
            generation = self._fill(policy, tables, nodes, ours)
            self._pin_generation(policy, undo)
            self._write_endpoints(generation, undo)
            self._write_nodes(nodes, generation, undo)
            failsafes.write(
                self.pins, self._failsafes, self.word.epoch, self.before_word.epoch, undo
            )
            self._fill_slot(policy, undo)
            clock.set_rate(self.pins.map("pc_clock"))
            revoked.draw_answer_mac(self.pins.map("pc_answer_mac"))
            if self.plan.resets:
                revoked.reset(policy.map_fd(revoked.MAP), hooks.programs[revoked.PROGRAM])
            generation = self._attach(generation, hooks, undo)
            self._attach_sockets(undo)
            where = self.uplinks, self.file.own_addresses
            xdp.attach(self.pins, self.bundle, *where, self.plan.xdp_mode, self.note, objects, undo)
            self.state.write(generation)
            undo.by(self.state.remove, generation.epoch)
            services = self._fill_services(generation, undo)
            switch.store(self.pins.map("pc_state"), services.word if services else self.word)
            undo.forget()
        if services:
            services.finish(self.pins)
        if self.served:
            self.state.set_left_out(self.served.left_out)
        elif self.before and self.before.external_cidrs != self.external and self.word.services:
            self.note(
                "--external-cidr: the loaded Services stay unchanged until `policyc node services`"
            )
        self._sweep(generation, nodes)
        replaced = bool(self.before and hooks.are_new)
        return Loaded(
            generation,
            self.before_word.epoch,
            replaced,
            tables.refused(),
            tables.n_unnoted,
            leftovers.names_kept(generation),
        )

    def _make_room(self, undo: Undo) -> None:
        """Folders, without the remains of a load that died before its switch."""
        if not self.pins.is_there():
            undo.by(self.pins.remove)
            self.state.forget_network()  # of pins that are no more
        if self.state.network() is None:
            undo.by(self.state.forget_network)
            self.state.set_network(network.here())
        self.pins.make()
        for epoch, folder in self.pins.generations().items():
            if epoch != self.before_word.epoch:
                pins.remove_folder(folder)
        socket_hooks.keep_only(self.pins, self.before_word.epoch)

    def _reserve_ports(self, undo: Undo) -> None:
        """Of those that pods leave by none is anybody else's."""
        if not self.ports:
            return
        self.masquerading.note_gaps(self.note)
        if self.served is None and self.before_word.epoch:
            self._keep_node_ports()
        reserved_ports.require_free(self.state, self.ports)
        reserved_ports.reserve(self.state, self.ports, undo)

    def _keep_node_ports(self) -> None:
        """`InputError` where Services of an earlier load have one of the ports."""
        from policyc.runtime.services import maps as service_maps

        if taken := service_maps.node_ports(self.pins, self.ports):
            raise InputError(
                f"--masquerade-ports {reserved_ports.shown(self.ports)}: "
                f"{taken[0]} is the node port of a Service",
                "choose other ports with --masquerade-ports",
            )

    def _tunnel(self, nodes: Nodes, undo: Undo) -> tuple[Attachment, ...]:
        """The device through which other nodes are reached, if any packet is to go there."""
        if not self.uplinks or not nodes.has_others():
            return ()
        ifindex = tunnel.make(self.uplinks.values(), nodes.outer_family, undo)
        return (Attachment(tunnel.NAME, ifindex, self.kind, "tunnel"),)

    def _detour(self, undo: Undo) -> tuple[Attachment, ...]:
        """The device through which fragments are put in order, if that is asked for and can be."""
        if not self.plan.reassemble:
            return ()
        try:
            ifindex = reassembly.make(self.state.reassembly, undo)
        except HostError as error:
            self.warn(f"out-of-order fragments are dropped: {error}")
            return ()
        return (Attachment(reassembly.NAME, ifindex, self.kind, "detour"),)

    def _attachments(self, ours: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
        return (
            *(Attachment(name, at, self.kind) for name, at in self.devices.items()),
            *(Attachment(name, at, self.kind, "uplink") for name, at in self.uplinks.items()),
            *ours,
        )

    def _fill(
        self, policy: Object, placer: Placer, known: Nodes, ours: tuple[Attachment, ...]
    ) -> Generation:
        """Seeds, classes and what new classes need, into maps that nothing reads yet."""
        maps = dict(policy.own_maps())
        seeds.write_seeds(self.bundle, maps)
        nodes = self.file.nodes if placer.reads_nodes else ()
        guarded = self.plan.guarded
        roster = Roster(
            self.file.endpoints,
            self.devices,
            nodes,
            self.file.node,
            self.with_peers,
            host_policy.with_addresses(guarded.host, self.file) if guarded else None,
            pod_devices.namespace_ids(self.devices.values()),
            self.file.own_node if self.bundle.binds_own_node else None,
        )
        ids = assign_ids(
            roster,
            before=self.before.endpoints if self.before else (),
            in_use=endpoint_maps.ids(self.pins, self._endpoint_layout),
            capacity=self.bundle.endpoints,
        )
        endpoints = tuple(roster.place(placer, ids))
        seeds.write_words(placer.drain_writes(), maps)
        if placer.class_fields:
            endpoint_maps.write_classes(endpoints, placer.class_fields, policy.map_fd("pc_class"))
        attachments = self._attachments(ours)
        former = leftovers.others(self.pins, self.before, attachments, self.on_record, self.warn)
        return Generation(
            epoch=self.word.epoch,
            slot=self.word.slot,
            bundle=str(self.bundle.path.absolute()),
            bundle_digest=self.bundle.digest,
            hooks_digest=self.bundle.digests[HOOKS_OBJECT],
            node=self.file.node,
            nodes=known.by_name,
            node_addresses=tuple(map(str, self.file.own_addresses)),
            node_zone=self.file.own_zone,
            endpoints=endpoints,
            attachments=attachments,
            former=former,
            rules=(*self.bundle.rules, *placer.new_rules()),
            drop_reasons=self._hooks_btf.enum("drop_reason"),
            forwarding=self.plan.forward,
            outside=self.plan.way_back,
            cgroup=str(self.cgroup.absolute()) if self.cgroup else "",
            masquerade=self.masquerading.on_record,
            host=LoadedHost(guarded.host.name, guarded.failsafes) if guarded else None,
            service_cidrs=tuple(str(each.to) for each in self.plan.routes),
            deny_devices=self.deny,
            resets_revoked=self.plan.resets,
            external_cidrs=self.external,
        )

    @property
    def _failsafes(self) -> Failsafes:
        return self.plan.guarded.failsafes if self.plan.guarded else Failsafes()

    def _pin_generation(self, policy: Object, undo: Undo) -> None:
        """For `status`, and so that the maps can be looked at."""
        folder = self.pins.generation(self.word.epoch)
        undo.by(pins.remove_folder, folder)
        folder.mkdir()
        for name, fd in policy.own_maps():
            bpf_syscall.obj_pin(fd, folder / name)
        bpf_syscall.obj_pin(policy.program_fd(POLICY_PROGRAM), folder / POLICY_PROGRAM)

    def _write_endpoints(self, generation: Generation, undo: Undo) -> None:
        """From here on the old generation meets new pods: it has no class for them, and denies."""
        endpoint_maps.write(self.pins, generation.endpoints, self._endpoint_layout, undo)

    def _write_nodes(self, nodes: Nodes, generation: Generation, undo: Undo) -> None:
        through = next((at.ifindex for at in generation.attachments if at.role == "tunnel"), 0)
        nodes.write(undo)
        alone = forwarding.without_master(self.uplinks) if self.with_peers else {}
        past = route_mtu.none_narrower(alone, self.note)
        past, marks = route_rules.told_of(past, self.note)
        nodes.configure(through, list(self.uplinks.values()), past, self.plan.way_back, undo, marks)
        self.masquerading.write(undo)

    @cached_property
    def _hooks_btf(self) -> Btf:
        return Btf.of_object(self.bundle.path / HOOKS_OBJECT)

    @property
    def _endpoint_layout(self) -> StructLayout:
        return self._hooks_btf.struct("pc_endpoint")

    def _fill_slot(self, policy: Object, undo: Undo) -> None:
        key = struct.pack("=I", self.word.slot)
        program = struct.pack("=I", policy.program_fd(POLICY_PROGRAM))
        undo.by(self._empty_slot, self.word.slot)
        with bpf_syscall.obj_get(self.pins.map("pc_policy")) as fd:
            bpf_syscall.map_update(fd, key, program)

    def _empty_slot(self, slot: int) -> None:
        with bpf_syscall.obj_get(self.pins.map("pc_policy")) as fd:
            bpf_syscall.map_delete(fd, struct.pack("=I", slot))

    def _fill_services(self, generation: Generation, undo: Undo) -> "service_maps.Filled | None":
        if self.served is None:
            return None
        from policyc.runtime.services import maps as service_maps

        frontends = self.served.frontends
        return service_maps.fill(self.pins, self.word, frontends, generation.nodes, undo)

    def _attach(self, generation: Generation, hooks: HookPrograms, undo: Undo) -> Generation:
        """Attach where nothing is yet, before the switch: afterwards it could no longer fail. The
        generation without the devices that went meanwhile.

        Asks the kernel and not the record, which may be lost: what is attached is never undone.
        """
        for attachment in generation.attachments:
            try:
                self._attach_to(attachment, hooks, undo)
            except attach.GoneError:
                if self.plan.missing == "refuse" or attachment.role != "pod":
                    raise
                del self.devices[attachment.interface]
            if attachment.role == "tunnel":
                tunnel.start(attachment.ifindex, undo)
            if attachment.role == "detour":
                reassembly.start(attachment.ifindex, undo)
            if attachment.role == "route":
                by = (*self.devices.values(), *self.uplinks.values())
                service_route.start(self.pins, attachment.ifindex, self.plan.routes, by, undo)
        detour = next((at.ifindex for at in generation.attachments if at.role == "detour"), 0)
        reassembly.configure(self.pins, detour, undo)
        found = without_missing(generation, self.devices, self.warn)
        if found != generation:
            self._write_endpoints(found, undo)
        return self._attach_to_others(found, hooks, undo)

    def _attach_to_others(
        self, generation: Generation, hooks: HookPrograms, undo: Undo
    ) -> Generation:
        """At devices without an endpoint, until no more of them are found: the generation with them."""
        for attachment in leftovers.kept(generation):
            self._attach_if_there(attachment, hooks, undo)
        while news := leftovers.unhooked(generation, self.kind):
            for attachment in news:
                self._attach_if_there(attachment, hooks, undo)
            generation = replace(generation, former=(*generation.former, *news))
        return generation

    def _attach_if_there(self, attachment: Attachment, hooks: HookPrograms, undo: Undo) -> None:
        try:
            self._attach_to(attachment, hooks, undo)
        except HostError:
            if attach.is_there(attachment):
                raise

    def _attach_to(self, attachment: Attachment, hooks: HookPrograms, undo: Undo) -> None:
        if not attach.is_whole(self.pins, attachment):
            if attachment.role in own_device.ROLES and not attach.is_any(self.pins, attachment):
                own_device.stop(attachment.ifindex, f"the device {attachment.interface}")
            undo.by(attach.detach, self.pins, attachment)
        elif not hooks.are_new:
            return
        elif hooks.before:
            undo.by(attach.attach, self.pins, attachment, hooks.before)
        attach.attach(self.pins, attachment, hooks.programs)

    def _attach_sockets(self, undo: Undo) -> None:
        if self.cgroup is not None:
            own = self.file.own_addresses
            socket_hooks.attach(self.pins, self.word.epoch, self.bundle, self.cgroup, own, undo)

    def _sweep(self, generation: Generation, nodes: Nodes) -> None:
        """Take away what only the generation before needed. It cannot undo the switch any more."""
        self._drop_devices(generation)  # before their hooks
        leftovers.sweep(self.pins, generation)
        refusals.forget(self.pins, {each.ifindex for each in generation.endpoints})
        xdp.keep_only(self.pins, self.uplinks.values() if self.plan.xdp_mode else ())
        socket_hooks.keep_only(self.pins, generation.epoch)
        endpoint_maps.keep_only(self.pins, generation.endpoints, self._endpoint_layout)
        nodes.forget_others()
        self.masquerading.forget_others()
        reserved_ports.settle(self.state, self.ports, self.warn)
        switch.wait_for_readers()
        failsafes.keep_only(self.pins, generation.epoch)
        if self.before_word.epoch:
            self._empty_slot(self.before_word.slot)
        for epoch, folder in self.pins.generations().items():
            if epoch != generation.epoch:
                pins.remove_folder(folder)
        hook_programs.forget_replaced(self.pins)
        self.state.keep_only(generation.epoch)

    def _drop_devices(self, generation: Generation) -> None:
        """Those of our own that this generation has no use for."""
        roles = {at.role for at in generation.attachments}
        if "tunnel" not in roles:
            tunnel.remove()
        if "detour" not in roles:
            reassembly.remove(self.state.reassembly)
        service_route.settle(self.pins, self.plan.routes)
