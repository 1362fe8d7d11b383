# SPDX-License-Identifier: Apache-2.0
"""Host endpoints: interfaces of nodes that are subjects of policies. Data only."""

from collections.abc import Mapping
from dataclasses import field

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span
from policyc.ir.universe import Address


@dataclass(frozen=True, slots=True)
class HostEndpoint:
    """An interface of a node that is a subject of policies (Calico's HostEndpoint, semantics D43).

    `denies_unmatched`: traffic that no policy decides is denied. `interface` is the device's name, `*`
    for all of them; empty: the device with `addresses`.
    """

    name: str
    node: str
    labels: Mapping[str, str] = field(hash=False)
    addresses: tuple[Address, ...]
    denies_unmatched: bool
    span: Span = field(compare=False)
    interface: str = ""
