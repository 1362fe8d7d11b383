# SPDX-License-Identifier: Apache-2.0
"""Flows of Cilium's Hubble: the lines of `hubble observe -o json`, with or without the key `flow`.

Each record is one packet event, so a count is of events. Replies, events of layer 7, of sockets and of
traces without a known direction open no connection and are skipped.
"""

from policyc.compiler.frontend.observed.records import (
    BadRecordError,
    EndRecord,
    FlowRecord,
    Record,
    Seen,
    ServiceRecord,
    Skipped,
    chosen,
    number_of,
    object_of,
    text_of,
    texts_of,
)

_NO_FLOWS = {
    "lost_events": "notices of lost events",
    "node_status": "notices about nodes",
    "agent_event": "events of agents",
    "debug_event": "debug events",
}
_IS_DENIED: dict[str, bool | None] = {
    "FORWARDED": False,
    "REDIRECTED": False,  # passes through a proxy of layer 7
    "AUDIT": False,  # policy denies it, and audit mode lets it pass
    "DROPPED": True,
    "ERROR": None,
    "TRACED": None,
    "TRANSLATED": None,
    "VERDICT_UNKNOWN": None,
}
_SEEN = {"EGRESS": Seen.SOURCE, "INGRESS": Seen.DESTINATION}
_FAMILIES = {"IPv4": 4, "IPv6": 6}
_PREFIX = "k8s:"
_NOT_OF_PODS = ("io.kubernetes.", "io.cilium.")
"""Prefixes of labels that Cilium derives from namespaces, accounts and clusters."""


def is_hubble(record: Record) -> bool:
    """Whether a record is Hubble's."""
    return bool(_NO_FLOWS.keys() & record.keys() or {"flow", "IP", "l4"} & record.keys())


def flow_of(record: Record) -> FlowRecord | Skipped:
    """The flow of one line; raises BadRecordError."""
    for field, why in _NO_FLOWS.items():
        if field in record:
            return Skipped(why)
    flow = object_of(record, "flow") if "flow" in record else record
    verdict = text_of(flow, "verdict")
    is_denied = chosen(verdict, _IS_DENIED, "verdict")
    if is_denied is None:
        return Skipped(f"records of verdict {verdict}")
    if text_of(flow, "Type") in ("L7", "SOCK"):
        return Skipped("records of layer 7 and of sockets")
    reply = flow.get("is_reply")
    if reply is True or flow.get("reply") is True:
        return Skipped("replies")
    if reply is None and not is_denied and "policy_match_type" not in flow:
        return Skipped("traces of unknown direction (without is_reply)")
    addresses = object_of(flow, "IP")
    family = _FAMILIES.get(text_of(addresses, "ipVersion"))
    return FlowRecord(
        _end(object_of(flow, "source"), text_of(addresses, "source")),
        _end(object_of(flow, "destination"), text_of(addresses, "destination")),
        _service(object_of(flow, "l4"), family),
        1,
        is_denied,
        _SEEN.get(text_of(flow, "traffic_direction"), Seen.ANYWHERE),
    )


def _end(end: Record, address: str) -> EndRecord:
    labels = texts_of(end, "labels")
    own = (label.removeprefix(_PREFIX) for label in labels if label.startswith(_PREFIX))
    return EndRecord(
        text_of(end, "namespace"),
        text_of(end, "pod_name"),
        tuple(sorted(label for label in own if not label.startswith(_NOT_OF_PODS))),
        address,
    )


def _service(l4: Record, family: int | None) -> ServiceRecord:
    for name in ("TCP", "UDP", "SCTP"):
        if name in l4:
            port = number_of(object_of(l4, name), "destination_port")
            return ServiceRecord(name, port, family=family)
    for name, its_family in (("ICMPv4", 4), ("ICMPv6", 6)):
        if name in l4:
            icmp = object_of(l4, name)
            kind, code = number_of(icmp, "type") or 0, number_of(icmp, "code") or 0
            return ServiceRecord("icmp", None, kind, code, its_family)
    raise BadRecordError("`l4` names none of TCP, UDP, SCTP, ICMPv4 and ICMPv6")
