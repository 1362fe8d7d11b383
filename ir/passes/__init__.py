# SPDX-License-Identifier: Apache-2.0
"""From a Policy IR to a Policy IR: each pass in a module of its own, with what it keeps of verdicts."""

from policyc.ir.passes.cancel import Cancel
from policyc.ir.passes.enforceable import Enforceable
from policyc.ir.passes.explicit import ExplicitTiers
from policyc.ir.passes.ir_pass import IrPass
from policyc.ir.passes.lower_hosts import LowerHosts
from policyc.ir.passes.without_effects import WithoutEffects
from policyc.ir.passes.without_hosts import WithoutHosts

PASSES: tuple[type[IrPass], ...] = (
    Enforceable, LowerHosts, ExplicitTiers, WithoutEffects, WithoutHosts, Cancel,
)  # fmt: skip
"""Every pass. The docs and the test of what passes keep read this tuple."""
