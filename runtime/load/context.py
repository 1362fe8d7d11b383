# SPDX-License-Identifier: Apache-2.0
"""What the resources of one load, or of one unload, share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from policyc.runtime.attach import leftovers
from policyc.runtime.attach.denied_devices import Patterns
from policyc.runtime.bundle.bundle import Bundle
from policyc.runtime.endpoints.endpoints import EndpointsFile
from policyc.runtime.endpoints.placement import Placer
from policyc.runtime.endpoints.slaves import Slave
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.policy.host_policy import HostPolicy
from policyc.runtime.services.route import Route
from policyc.runtime.snat.snat import Masquerading
from policyc.runtime.state import Attachment, Generation, StateDir, Warn
from policyc.runtime.switch import Word

PlacerFactory = Callable[[Bundle], Placer]


@dataclass(frozen=True)
class Given:
    """What was read and checked before the command was alone on the node."""

    request: LoadRequest
    bundle: Bundle
    file: EndpointsFile
    host_policy: HostPolicy | None
    """The node itself, where policies of the bundle are about it."""
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class Context:
    """One load. `before_word` and `before` are those in force until the switch.

    Only `devices` changes: a device that goes meanwhile is taken out.
    """

    given: Given
    pins: Pins
    state: StateDir
    attach_kind: str
    """How hooks are attached to devices: `tcx` or `clsact`."""
    devices: dict[str, int]
    """Ifindexes of the node's pods, by name."""
    slaves: Mapping[str, Slave]
    """Pods' ipvlan slaves, by name."""
    slave_numbers: Mapping[str, int]
    """What the hooks know slaves by, by name."""
    uplinks: dict[str, int]
    fast_path_devices: frozenset[int]
    """Devices whose pods take the fast path."""
    snat: Masquerading
    before_word: Word
    before: Generation | None
    is_record_complete: bool
    """Whether the record of the generation before names all that is attached."""
    word: Word
    placer: PlacerFactory
    deny_devices: Patterns
    external_cidrs: tuple[str, ...]
    warn: Warn
    note: Warn

    @property
    def pod_devices(self) -> dict[str, int]:
        """What the hooks know pods' devices by: ifindexes, and numbers of slaves."""
        return {**self.devices, **self.slave_numbers}

    @property
    def request(self) -> LoadRequest:
        """What was asked for."""
        return self.given.request

    @property
    def ports(self) -> range:
        """The ports of SNAT."""
        wanted = self.request.masquerade
        return wanted.ports if wanted else range(0)


@dataclass(frozen=True)
class Removal:
    """One unload. `is_reachable` is False where the network namespace of the load is gone."""

    pins: Pins
    state: StateDir
    is_reachable: bool
    others: tuple[Attachment, ...]
    """Everything that is attached."""
    warn: Warn

    @classmethod
    def of(cls, pins: Pins, state: StateDir, is_reachable: bool, generation: Generation | None,
           warn: Warn) -> "Removal":  # fmt: skip
        """Looks for what is attached."""
        others: tuple[Attachment, ...] = ()
        if is_reachable:
            on_record = leftovers.is_all_on_record(pins, generation)
            others = tuple(leftovers.others(pins, generation, (), on_record, warn))
        return cls(pins, state, is_reachable, others, warn)
