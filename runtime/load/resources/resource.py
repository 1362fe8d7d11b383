# SPDX-License-Identifier: Apache-2.0
"""What a feature of a load does at each step of it. A feature overrides the steps that it needs.

    check    refuse what this node cannot have; nothing was changed yet
    prepare  make what no packet meets: programs, devices, reservations
    write    fill maps for the new generation
    commit   what packets may meet before the switch; afterwards nothing fails
    sweep    after the switch: take away what only the generation before needed
    remove   at `unload`: take away everything

A load takes the features in order, and sweeps and unloads them in reverse. Whatever changes the node
before the switch puts its undo into the transaction first.
"""

from contextlib import ExitStack
from dataclasses import dataclass

from policyc.runtime.load.context import Context, Removal
from policyc.runtime.state import Attachment, Generation
from policyc.runtime.undo import Undo


@dataclass(frozen=True, slots=True)
class Transaction:
    """A load until its switch: how it is taken back, and the descriptors that it holds."""

    undo: Undo
    held: ExitStack


class Resource:
    """One feature of one load."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def check(self) -> None:
        """`InputError` or `HostError` for what this node cannot have."""

    def prepare(self, work: Transaction) -> None:
        """Make what no packet meets."""

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The devices of this feature that get hooks, once it is prepared."""
        return ()

    def write(self, generation: Generation, work: Transaction) -> None:
        """Fill maps for the new generation."""

    def start(self, attachment: Attachment, work: Transaction) -> None:
        """One of `attachments` has its hook now."""

    def commit(self, generation: Generation, work: Transaction) -> None:
        """What packets may meet before the switch."""

    def sweep(self, generation: Generation) -> None:
        """The switch is done and cannot be undone; `generation` is in force."""

    @staticmethod
    def remove(removal: Removal) -> None:
        """Take away everything of this feature."""
