# SPDX-License-Identifier: Apache-2.0
"""ICMP messages of the lab, byte by byte."""

import struct

import pytest

from policyc.runtime.lab.icmp import checksum, echo_request, quoted_echo
from policyc.runtime.lab.probes import Family

HEADER: dict[Family, bytes] = {4: bytes([0x46]) + bytes(23), 6: bytes([0x60]) + bytes(39)}
FAMILIES: tuple[Family, ...] = (4, 6)


def test_the_checksum_of_rfc_1071() -> None:
    assert checksum(bytes([0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7])) == 0xFFFF - 0xDDF2
    assert checksum(b"\x01") == 0xFEFF


def test_an_ipv4_request_sums_to_zero() -> None:
    assert checksum(echo_request(4, 0x1234, 7)) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_an_error_is_matched_by_the_request_that_it_quotes(family: Family) -> None:
    request = echo_request(family, 0x1234, 1)
    error = struct.pack("!BBHI", 3, 13, 0, 0) + HEADER[family] + request
    assert quoted_echo(family, error) == 0x1234


@pytest.mark.parametrize("family", FAMILIES)
def test_an_error_about_something_else_matches_nothing(family: Family) -> None:
    header = struct.pack("!BBHI", 3, 13, 0, 0)
    assert quoted_echo(family, header) is None
    assert quoted_echo(family, header + HEADER[family]) is None
    assert quoted_echo(family, header + HEADER[family] + bytes([6] * 8)) is None
