# SPDX-License-Identifier: Apache-2.0
"""ICMP types by name, as IANA's registries number them: icmp-parameters, icmpv6-parameters."""

ICMP_TYPES = {
    "echo-reply": 0,
    "destination-unreachable": 3,
    "source-quench": 4,
    "redirect": 5,
    "echo-request": 8,
    "router-advertisement": 9,
    "router-solicitation": 10,
    "time-exceeded": 11,
    "parameter-problem": 12,
    "timestamp-request": 13,
    "timestamp-reply": 14,
    "extended-echo-request": 42,
    "extended-echo-reply": 43,
}
ICMPV6_TYPES = {
    "destination-unreachable": 1,
    "packet-too-big": 2,
    "time-exceeded": 3,
    "parameter-problem": 4,
    "echo-request": 128,
    "echo-reply": 129,
    "multicast-listener-query": 130,
    "multicast-listener-report": 131,
    "multicast-listener-done": 132,
    "router-solicitation": 133,
    "router-advertisement": 134,
    "neighbour-solicitation": 135,
    "neighbor-solicitation": 135,
    "neighbour-advertisement": 136,
    "neighbor-advertisement": 136,
    "redirect": 137,
    "multicast-listener-report-v2": 143,
    "extended-echo-request": 160,
    "extended-echo-reply": 161,
}
