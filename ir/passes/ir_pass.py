# SPDX-License-Identifier: Apache-2.0
"""What a pass is: a step from a Policy IR to a Policy IR, and what it keeps of the verdicts."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from policyc.ir.diagnostics import Report
from policyc.ir.policy import PolicySet


class Keeps(Enum):
    """What is the same for every flow before and after a pass."""

    ACTIONS = "every action; another policy or default may decide"
    ACTIONS_OF_PODS = "every action where the subject is a pod"
    DENIALS = "every denial; a rule that is not understood may deny more"
    CHANGES = "every difference to the other policies"


@dataclass(frozen=True)
class IrPass(ABC):
    """A pass. Its fields are its options."""

    name: ClassVar[str]
    """A verb phrase in kebab-case."""
    keeps: ClassVar[Keeps]

    @abstractmethod
    def run(self, policies: PolicySet, report: Report) -> PolicySet:
        """The policies after the pass. What it refuses is an error in the report."""
