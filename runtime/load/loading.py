# SPDX-License-Identifier: Apache-2.0
"""One load, step by step: all resources prepare and write, one word switches, all resources sweep."""

from contextlib import ExitStack
from dataclasses import dataclass, replace

from policyc.runtime import switch
from policyc.runtime.attach import attach, leftovers
from policyc.runtime.attach import slaves as slave_links
from policyc.runtime.attach.denied_devices import Patterns
from policyc.runtime.bundle.bundle import HOOKS_OBJECT
from policyc.runtime.devices import uplinks
from policyc.runtime.endpoints import forwarding
from policyc.runtime.endpoints import slaves as pod_slaves
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.load.context import Context, Given, PlacerFactory, Removal
from policyc.runtime.load.resources.attached import DeviceHooks, Netkit, SocketHooks, Xdp
from policyc.runtime.load.resources.bypassing import Bypassing
from policyc.runtime.load.resources.endpoints import Endpoints
from policyc.runtime.load.resources.first_packets import FirstPackets
from policyc.runtime.load.resources.node_maps import (
    ClusterNodes,
    FailsafePorts,
    GracePeriod,
    Snat,
)
from policyc.runtime.load.resources.own_devices import Reassembly, ServiceRoute, Tunnel
from policyc.runtime.load.resources.prerouting import Prerouting
from policyc.runtime.load.resources.programs import Folders, Hooks, PolicyProgram, Record
from policyc.runtime.load.resources.resource import Resource, Resources, Transaction
from policyc.runtime.load.resources.services import Services
from policyc.runtime.load.resources.slaves import Slaves
from policyc.runtime.snat.snat import Masquerading
from policyc.runtime.state import Generation, LoadedHost, StateDir, Warn
from policyc.runtime.undo import Undo

RESOURCES: tuple[type[Resource], ...] = (
    Folders, Hooks, PolicyProgram, FailsafePorts, GracePeriod, Snat, ClusterNodes, Endpoints,
    Bypassing, DeviceHooks, Netkit, Slaves, SocketHooks, Xdp, Tunnel, Reassembly, ServiceRoute,
    Prerouting, FirstPackets, Record, Services,
)  # fmt: skip
"""Every resource, in the order of a load; sweeps and unloads go in reverse."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did, for the message afterwards."""

    generation: Generation
    replaced_epoch: int  # 0: nothing ran before
    hooks_replaced: bool
    closed: tuple[str, ...]  # pods that the tables had no room for: what has no cell is denied
    n_unnoted: int  # decisions that lost their notes, as rule ids had run out
    denied: tuple[str, ...]  # devices without an endpoint, under default deny


class Loading:
    """The resources of one load."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.resources = Resources(context, RESOURCES)

    def run(self) -> Loaded:
        """Load. What fails before the switch leaves the generation before it, and nothing of this."""
        resources = self.resources.all
        for each in resources:
            each.check()
        with ExitStack() as held, Undo() as undo:
            work = Transaction(undo, held)
            for each in resources:
                each.prepare(work)
            generation = self._generation()
            for each in resources:
                each.write(generation, work)
            generation = self._attach(generation, work)
            for each in resources:
                each.commit(generation, work)
            switch.store(self.context.pins.map("pc_state"), self.resources[Services].word)
            undo.forget()
        for each in reversed(resources):
            each.sweep(generation)
        return self._loaded(generation)

    def _attach(self, generation: Generation, work: Transaction) -> Generation:
        hooks = self.resources[DeviceHooks]
        owners = {on.role: each for each in self.resources.all for on in each.attachments}
        found = hooks.attach(generation, owners, work)
        if found != generation:  # devices went: their pods lose their addresses, too
            self.resources[Endpoints].write(found, work)
        return self.resources[FirstPackets].allowed(hooks.attach_to_others(found, work))

    def _generation(self) -> Generation:
        at, file, bundle = self.context, self.context.given.file, self.context.given.bundle
        policy, request = at.given.host_policy, at.request
        endpoints = self.resources[Endpoints]
        attachments = tuple(on for each in self.resources.all for on in each.attachments)
        former = leftovers.others(at.pins, at.before, attachments, at.is_record_complete, at.warn)
        return Generation(
            epoch=at.word.epoch,
            slot=at.word.slot,
            bundle=str(bundle.path.absolute()),
            bundle_digest=bundle.digest,
            hooks_digest=bundle.digests[HOOKS_OBJECT],
            node=file.node,
            nodes=self.resources[ClusterNodes].nodes.by_name,
            node_addresses=tuple(map(str, file.own_addresses)),
            node_zone=file.own_zone,
            endpoints=endpoints.placed,
            attachments=attachments,
            former=former,
            rules=(*bundle.rules, *endpoints.tables.new_rules()),
            drop_reasons=endpoints.hooks_btf.enum("drop_reason"),
            forwarding=request.forwarding,
            outside=request.outside,
            cgroup=str(request.cgroup.absolute()) if request.cgroup else "",
            masquerade=at.snat.on_record,
            host=LoadedHost(policy.host.name, policy.failsafes) if policy else None,
            service_cidrs=tuple(str(each.to) for each in at.given.routes),
            deny_devices=at.deny_devices,
            resets_revoked=request.resets,
            external_cidrs=at.external_cidrs,
            socket_services=request.socket_services,
            connect_deny=request.connect_deny,
            bypass=request.bypass or "",
        )

    def _loaded(self, generation: Generation) -> Loaded:
        at, tables = self.context, self.resources[Endpoints].tables
        return Loaded(
            generation,
            at.before_word.epoch,
            bool(at.before and self.resources[Hooks].programs.are_new),
            tables.refused(),
            tables.n_unnoted,
            leftovers.names_kept(generation),
        )


def context_of(
    given: Given,
    state: StateDir,
    devices: dict[str, int],
    placer: PlacerFactory,
    say: tuple[Warn, Warn],
) -> Context:
    """What a load finds on the node; the caller holds the lock. `say` takes warnings, then notes."""
    request, pins = given.request, Pins(given.request.bpffs)
    warn, note = say
    before_word = switch.read(pins.map("pc_state"))
    before = state.remembered(before_word.epoch, warn)
    at_uplinks = uplinks.find(request.uplinks, devices)
    external = request.external_cidrs
    pods = given.file.endpoints
    slaves = pod_slaves.found(request.endpoints, pods, at_uplinks, request.missing, warn)

    def kept(asked: Patterns | None, name: str, option: str) -> Patterns:
        """What the option says, else what it said before."""
        if asked is not None:
            return asked
        if before_word.epoch and not before:
            warn(f"the previous value of {option} is lost: give it again")
        found: Patterns = getattr(before, name, ())
        return found

    return Context(
        given=given,
        pins=pins,
        state=state,
        attach_kind=attach.kind_for(request.mode),
        devices=dict(devices),
        slaves=slaves,
        slave_numbers=slave_links.numbered(pins, slaves.values()),
        uplinks=at_uplinks,
        fast_path_devices=forwarding.with_peers(devices.values(), request.forwarding),
        snat=Masquerading(pins, request.masquerade, at_uplinks, given.file.own_addresses),
        before_word=before_word,
        before=before,
        is_record_complete=leftovers.is_all_on_record(pins, before),
        word=replace(
            before_word.next,
            masquerades=request.masquerade is not None,
            has_host=given.host_policy is not None,
            binds_own_node=given.bundle.binds_own_node,
        ),
        placer=placer,
        deny_devices=kept(request.deny_devices, "deny_devices", "--deny-devices"),
        external_cidrs=kept(
            None if external is None else tuple(map(str, external)),
            *("external_cidrs", "--external-cidr"),
        ),
        warn=warn,
        note=note,
    )


def remove_all(removal: Removal) -> None:
    """Remove every resource."""
    for kind in reversed(RESOURCES):
        kind.remove(removal)
