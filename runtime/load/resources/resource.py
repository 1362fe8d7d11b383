# SPDX-License-Identifier: Apache-2.0
"""What a resource of a load does at each step. A resource overrides the steps that it needs.

    check        refuse what this node cannot have; nothing was changed yet
    prepare      create objects that no hook reaches yet: programs, devices, reservations
    attachments  the devices of this resource that get hooks
    write        fill maps for the new generation; it may run twice, where a device goes meanwhile
    start        one of the devices has its hook now
    commit       the last step before the switch: what becomes visible to packets
    sweep        after the switch: remove what only the generation before needed
    remove       at `unload`: remove everything

A load takes the resources in the order of `loading.RESOURCES`; sweeps and unloads take them in reverse.
A step that changes the node before the switch puts its undo into the transaction first.

To add one: its options in `request.py` and `compiler/cli/node_load.py`; the class here, and its place in
`RESOURCES`; what later commands must know in `Generation` (`runtime/state.py`) and `loading.py`; what
users must see in `runtime/observe/status.py`, and what must not be tampered with in `attest.py`.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar, cast

from policyc.runtime.load.context import Context, Removal
from policyc.runtime.state import Attachment, Generation
from policyc.runtime.undo import Undo

R = TypeVar("R", bound="Resource")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A load until its switch: how it is taken back, and the descriptors that it holds."""

    undo: Undo
    held: ExitStack


class Resources:
    """The resources of one load by type, in the order in which they were made."""

    def __init__(self, context: Context, kinds: "tuple[type[Resource], ...]") -> None:
        self._made: dict[type[Resource], Resource] = {}
        for kind in kinds:
            self._made[kind] = kind(context, self)

    def __getitem__(self, kind: type[R]) -> R:
        """That of a type; one that is made may ask for those before it."""
        return cast("R", self._made[kind])

    @property
    def all(self) -> "tuple[Resource, ...]":
        """Every resource, in order."""
        return tuple(self._made.values())


class Resource:
    """One resource of one load. `others` has those before it."""

    def __init__(self, context: Context, others: Resources) -> None:
        self.context = context
        self.others = others

    def check(self) -> None:
        """`InputError` or `HostError` for what this node cannot have."""

    def prepare(self, work: Transaction) -> None:
        """Create objects that no hook reaches yet."""

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The devices of this resource that get hooks, once it is prepared."""
        return ()

    def write(self, generation: Generation, work: Transaction) -> None:
        """Fill maps for the new generation."""

    def start(self, attachment: Attachment, work: Transaction) -> None:
        """One of `attachments` has its hook now."""

    def commit(self, generation: Generation, work: Transaction) -> None:
        """Do the last step before the switch."""

    def sweep(self, generation: Generation) -> None:
        """Remove what only the generation before needed. `generation` is in force and stays."""

    @staticmethod
    def remove(removal: Removal) -> None:
        """Remove everything of this resource."""
