# SPDX-License-Identifier: Apache-2.0
"""The pods: placed in the tables of the policy program, and found by the hooks by address."""

from functools import cached_property

from policyc.runtime.bundle.bundle import HOOKS_OBJECT
from policyc.runtime.endpoints import endpoint_maps, pod_devices
from policyc.runtime.endpoints.placement import Placer
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.kernel.layout import StructLayout
from policyc.runtime.load import quotas, seeds
from policyc.runtime.load.resolving import Roster, assign_ids
from policyc.runtime.load.resources.programs import PolicyProgram
from policyc.runtime.load.resources.resource import Resource, Transaction
from policyc.runtime.policy import host_policy
from policyc.runtime.state import Generation, LoadedEndpoint


class Endpoints(Resource):
    """Seeds, classes and the table entries of new classes; then the tables by which hooks find pods."""

    tables: Placer
    placed: tuple[LoadedEndpoint, ...]

    def prepare(self, work: Transaction) -> None:
        """Fill the maps of the policy program, which no packet meets yet."""
        at, bundle = self.context, self.context.given.bundle
        self.tables = at.placer(bundle)
        maps = dict(self.others[PolicyProgram].program.own_maps())
        seeds.write_seeds(bundle, maps)
        roster = self._roster()
        ids = assign_ids(
            roster,
            before=at.before.endpoints if at.before else (),
            in_use=endpoint_maps.ids(at.pins, self.layout),
            capacity=bundle.endpoints,
        )
        self.placed = tuple(roster.place(self.tables, ids))
        seeds.write_words(self.tables.drain_writes(), maps)
        if self.tables.class_fields:
            classes = self.others[PolicyProgram].program.map_fd("pc_class")
            endpoint_maps.write_classes(self.placed, self.tables.class_fields, classes)

    def _roster(self) -> Roster:
        at, file, policy = self.context, self.context.given.file, self.context.given.host_policy
        return Roster(
            file.endpoints,
            at.pod_devices,
            file.nodes if self.tables.reads_nodes else (),
            file.node,
            at.fast_path_devices,
            host_policy.with_addresses(policy.host, file) if policy else None,
            pod_devices.namespace_ids(at.devices.values()),
            file.own_node if at.given.bundle.binds_own_node else None,
        )

    @cached_property
    def hooks_btf(self) -> Btf:
        """The types of the hooks."""
        return Btf.of_object(self.context.given.bundle.path / HOOKS_OBJECT)

    @property
    def layout(self) -> StructLayout:
        """Of the record of a pod."""
        return self.hooks_btf.struct("pc_endpoint")

    def write(self, generation: Generation, work: Transaction) -> None:
        """From here on the old generation meets new pods: it has no class for them, and denies."""
        endpoint_maps.write(self.context.pins, generation.endpoints, self.layout, work.undo)

    def sweep(self, generation: Generation) -> None:
        """Pods that went are forgotten."""
        quotas.forget(self.context.pins, {each.ifindex for each in generation.endpoints})
        endpoint_maps.keep_only(self.context.pins, generation.endpoints, self.layout)
