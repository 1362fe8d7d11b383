# SPDX-License-Identifier: Apache-2.0
"""Two CPUs that want one SNAT port, step by step, in every interleaving.

Written from decisions/0030: one atomic operation of datapath/snat_owner.h is one step here. `Rival`
is a CPU. `outcomes` runs two of them in all interleavings over one map entry.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

NOW, THEN = 100, 200
"""A tick, and one that is still to come."""
LOOKS, WAITS = 2, 4


class TornError(AssertionError):
    """A reader finds a SNAT entry while it is written."""


@dataclass
class Half:
    """The map entry of the port. `whose` stands for the pod's address, `port` for its port."""

    whose: str
    port: str
    expires: int
    is_locked: bool = False

    @property
    def is_torn(self) -> bool:
        """It can be found while it is written."""
        return self.expires > NOW and self.whose != self.port


@dataclass
class Place:
    """The map's entry of one key, or none."""

    half: Half | None


@dataclass
class Rival:
    """A CPU with a packet of a pod; `has` what came of it."""

    pod: str
    has: bool | None = None
    seen: Half | None = None
    looks: int = 0
    waits: int = 0
    at: str = "look"

    @property
    def there(self) -> Half:
        """The entry that the CPU looked up."""
        assert self.seen
        return self.seen


def by_lock(cpu: Rival, place: Place) -> None:
    """One step of pc_snat_take(). An entry has one state, and nothing else shows an earlier one."""
    match cpu.at:
        case "look":
            if cpu.looks == LOOKS:
                cpu.has = False
                return
            cpu.looks, cpu.waits, cpu.seen = cpu.looks + 1, 0, place.half
            cpu.at = "lock" if cpu.seen else "insert"
        case "insert":
            cpu.at = "look"
            if place.half is None:
                place.half, cpu.has = Half(cpu.pod, cpu.pod, THEN), True
        case "lock":
            cpu.waits += 1
            if not cpu.there.is_locked:
                cpu.there.is_locked, cpu.at = True, "judge"
            elif cpu.waits == WAITS:
                cpu.at = "look"
        case "judge":
            cpu.at = "unlock" if cpu.there.expires > NOW else "end"
        case "end":
            cpu.there.expires, cpu.at = 0, "address"
        case "address":
            cpu.there.whose, cpu.at = cpu.pod, "port"
        case "port":
            cpu.there.port, cpu.at = cpu.pod, "time"
        case "time":
            cpu.there.expires, cpu.at = THEN, "unlock"
        case "unlock":
            cpu.has, cpu.there.is_locked = cpu.there.whose == cpu.pod, False


def by_swap_alone(cpu: Rival, place: Place) -> None:
    """What would not do: judged before it is locked, and unlocked before it has its time."""
    match cpu.at:
        case "look":
            cpu.seen = place.half
            cpu.at = "judge" if cpu.seen and not cpu.seen.is_locked else "lose"
        case "judge":
            cpu.at = "lose" if cpu.there.expires > NOW else "lock"
        case "lock":
            cpu.at = "lose" if cpu.there.is_locked else "address"
            cpu.there.is_locked = True
        case "address":
            cpu.there.whose, cpu.at = cpu.pod, "port"
        case "port":
            cpu.there.port, cpu.at = cpu.pod, "unlock"
        case "unlock":
            cpu.there.is_locked, cpu.at = False, "time"
        case "time":
            cpu.there.expires, cpu.has = THEN, True
        case "lose":
            cpu.has = False


def by_deletion(cpu: Rival, place: Place) -> None:
    """One step of an unsafe algorithm: it deletes the dead entry and inserts its own."""
    match cpu.at:
        case "look":
            cpu.seen = place.half
            cpu.at = "judge" if cpu.seen else "insert"
        case "judge":
            assert cpu.seen
            if cpu.seen.expires > NOW:
                cpu.has = cpu.seen.whose == cpu.pod
            cpu.at = "delete"
        case "delete":
            place.half, cpu.at = None, "insert"
        case "insert":
            cpu.has = place.half is None
            if place.half is None:
                place.half = Half(cpu.pod, cpu.pod, THEN)


Step = Callable[[Rival, Place], None]


def outcomes(
    step: Step, place: Place, pods: tuple[str, ...]
) -> Iterator[tuple[Place, list[Rival]]]:
    """The ends of all interleavings. An entry that can be read while it is written is an error."""
    ways = [(place, [Rival(pod) for pod in pods])]
    seen = set[str]()
    while ways:
        here, cpus = ways.pop()
        if here.half is not None and here.half.is_torn:
            raise TornError(f"{here.half}: {cpus}")
        if repr((here, cpus)) in seen:
            continue
        seen.add(repr((here, cpus)))
        if all(cpu.has is not None for cpu in cpus):
            yield here, cpus
        for i, cpu in enumerate(cpus):
            if cpu.has is None:
                then, others = deepcopy((here, cpus))
                step(others[i], then)
                ways.append((then, others))
