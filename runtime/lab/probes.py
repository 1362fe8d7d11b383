# SPDX-License-Identifier: Apache-2.0
"""The probes between the ends of a lab, and their possible outcomes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Family = Literal[4, 6]


class Protocol(StrEnum):
    """The protocol of a probe. ICMP is an echo request, of ICMPv6 in family 6."""

    TCP = "TCP"
    UDP = "UDP"
    ICMP = "ICMP"


@dataclass(frozen=True, slots=True, order=True)
class Probe:
    """One question: does the source reach the destination? Ends are named as in `Lab.ends`."""

    source: str
    destination: str
    family: Family
    protocol: Protocol
    port: int = 0  # the destination port; 0 for ICMP, which has none

    def __post_init__(self) -> None:
        if self.protocol is Protocol.ICMP:
            if self.port != 0:
                raise ValueError(f"an ICMP probe has no port, got {self.port}")
        elif not 1 <= self.port <= 65535:
            raise ValueError(f"{self.protocol} port {self.port} is not in 1..65535")

    @property
    def service(self) -> str:
        """Protocol and port, as in `TCP 443`; `ICMP` or `ICMPv6`."""
        if self.protocol is Protocol.ICMP:
            return "ICMP" if self.family == 4 else "ICMPv6"
        return f"{self.protocol} {self.port}"

    def __str__(self) -> str:
        return f"{self.source} -> {self.destination} {self.service} IPv{self.family}"


class Outcome(StrEnum):
    """The outcome of a probe."""

    ALLOWED = "allowed"  # the token came back
    DENIED = "denied"  # no answer: a silent drop
    REFUSED = "refused"  # a reset, or an ICMP unreachable: something answered, with no
    ERROR = "error"  # the probe could not be sent


@dataclass(frozen=True, slots=True)
class Observation:
    """The outcome of one probe; `detail` is the kernel's error for refused and error."""

    outcome: Outcome
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.outcome} ({self.detail})" if self.detail else str(self.outcome)
