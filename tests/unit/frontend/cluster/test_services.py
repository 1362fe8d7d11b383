# SPDX-License-Identifier: Apache-2.0
"""Sets of services in words."""

import pytest

from policyc.ir.intervals import IntervalSet
from policyc.ir.services import ALL_SERVICES, Kind, describe_services


def icmp(kind: Kind, *spans: tuple[tuple[int, int], tuple[int, int]]) -> IntervalSet:
    return IntervalSet.of(
        [(kind << 16 | a << 8 | b, kind << 16 | c << 8 | d) for (a, b), (c, d) in spans]
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (icmp(Kind.ICMP, ((8, 0), (8, 255))), "ICMP type 8"),
        (icmp(Kind.ICMPV6, ((128, 0), (128, 255))), "ICMPV6 type 128"),
        (icmp(Kind.ICMPV6, ((0, 0), (127, 255))), "ICMPV6 type 0-127"),
        (icmp(Kind.ICMP, ((3, 4), (3, 4))), "ICMP type 3 code 4"),
        (icmp(Kind.ICMP, ((3, 0), (3, 3))), "ICMP type 3 code 0-3"),
        (icmp(Kind.ICMP, ((3, 5), (7, 255))), "ICMP type 3 code 5 to type 7 code 255"),
        (icmp(Kind.ICMP, ((0, 0), (3, 3))), "ICMP type 0 code 0 to type 3 code 3"),
        (icmp(Kind.ICMP, ((0, 0), (255, 255))), "ICMP"),
        (IntervalSet.of([(80, 90)]), "TCP 80-90"),
        (IntervalSet.of([(Kind.OTHER << 16 | 47, Kind.OTHER << 16 | 48)]), "protocol 47-48"),
        (
            IntervalSet.of([(53, 53), (80, Kind.SCTP << 16 | 9)]),
            "TCP 53, TCP 80-65535, UDP, SCTP 0-9",
        ),
        (IntervalSet.of([(Kind.ICMPV6 << 16, Kind.OTHER << 16 | 0xFF)]), "ICMPV6, other protocols"),
        (ALL_SERVICES, "any service"),
        (ALL_SERVICES - IntervalSet.of([(53, 53)]), "any service except TCP 53"),
        (
            ALL_SERVICES - IntervalSet.of([(53, 53), (80, 90), (Kind.UDP << 16 | 53,) * 2]),
            "any service except TCP 53, TCP 80-90 and UDP 53",
        ),
        (IntervalSet(), "nothing"),
    ],
)
def test_service_keys_are_described_by_kind(keys: IntervalSet, words: str) -> None:
    assert describe_services(keys) == words
