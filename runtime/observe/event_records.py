# SPDX-License-Identifier: Apache-2.0
"""An event as the policy program writes it (datapath/events.h), and with names for people."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from policyc.runtime.kernel.layout import StructLayout
from policyc.runtime.observe.rule_names import place_of, rules_by_id
from policyc.runtime.state import Generation

SCHEMA = "policyc.dev/node-event/v1"
RECORD = "pc_event"
"""The struct of a record. A ring buffer has no BTF types: the BTF of pc_event_count has its layout."""
_EGRESS, _INGRESS, _AGAIN, _REPLY, _SERVICE = 1, 2, 4, 8, 16
_PROTOCOLS = {1: "ICMP", 6: "TCP", 17: "UDP", 58: "ICMPv6", 132: "SCTP"}
_WITH_PORTS = ("TCP", "UDP", "SCTP")


@dataclass(frozen=True, slots=True)
class RuleSaid:
    """A rule: its id, its action, and its place in the user's files."""

    rule: int
    action: str
    where: str  # policies, file:line
    path: str  # within the object, as `spec.ingress[0]`; empty for a default


@dataclass(frozen=True, slots=True)
class EndSaid:
    """The deciding rule at one end, and earlier rules that made a note."""

    decided: RuleSaid
    notes: tuple[RuleSaid, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One first packet. `egress` and `ingress` are None if that end's policy was not evaluated."""

    time: str  # RFC 3339, UTC
    epoch: int
    verdict: str  # allowed, denied
    reason: str  # why denied, as `node status` names drops; empty if allowed
    protocol: str
    source: str  # "shop/web", "node n1", or empty: external
    source_address: str
    source_port: int | None
    destination: str
    destination_address: str
    destination_port: int | None
    icmp_type: int | None
    icmp_code: int | None
    service_address: str | None  # the packet's destination before translation
    service_port: int | None
    again: bool  # a connection that an earlier policy allowed, decided again
    by_reply: bool  # by a packet of the reverse direction
    egress: EndSaid | None
    ingress: EndSaid | None

    def to_json(self) -> dict[str, Any]:
        """The event as plain values, with the name of its schema."""
        return {"schema": SCHEMA, "kind": "connection", **asdict(self)}


class Reader:
    """Decodes the records of one generation, whose programs write them in this layout."""

    def __init__(self, generation: Generation, layout: StructLayout) -> None:
        self._layout = layout
        self._rules = rules_by_id(generation)
        self._names = {each.id: each.title for each in generation.endpoints}
        self._reasons = {value: name for name, value in generation.drop_reasons.items()}
        self._clock_ns = time.time_ns() - time.monotonic_ns()

    def event(self, record: bytes) -> Event:
        """Decode one record, with names."""
        number, raw = partial(self._layout.number, record), partial(self._layout.raw, record)
        family, proto, flags = number("family"), number("proto"), number("flags")
        reason, icmp = number("reason"), number("icmp")
        protocol = _PROTOCOLS.get(proto, f"protocol {proto}")
        has_ports, is_icmp = protocol in _WITH_PORTS, protocol in ("ICMP", "ICMPv6")
        is_service = bool(flags & _SERVICE)
        return Event(
            time=_shown_time(number("time") + self._clock_ns),
            epoch=number("epoch"),
            verdict="denied" if reason else "allowed",
            reason=_reason(self._reasons.get(reason, str(reason))) if reason else "",
            protocol=protocol,
            source=self._names.get(number("src"), ""),
            source_address=_address(raw("saddr"), family),
            source_port=number("sport") if has_ports else None,
            destination=self._names.get(number("dst"), ""),
            destination_address=_address(raw("daddr"), family),
            destination_port=number("dport") if has_ports else None,
            icmp_type=icmp >> 8 if is_icmp else None,
            icmp_code=icmp & 0xFF if is_icmp else None,
            service_address=_address(raw("service"), family) if is_service else None,
            service_port=number("service_port") if is_service else None,
            again=bool(flags & _AGAIN),
            by_reply=bool(flags & _REPLY),
            egress=self._end(number("egress_rule")) if flags & _EGRESS else None,
            ingress=self._end(number("ingress_rule")) if flags & _INGRESS else None,
        )

    def _end(self, ident: int) -> EndSaid:
        rule = self._rules.get(ident, {})
        notes = tuple(self._said(note) for note in rule.get("notes", ()))
        return EndSaid(self._said(rule.get("of", ident)), notes)

    def _said(self, ident: int) -> RuleSaid:
        rule: Mapping[str, Any] = self._rules.get(ident, {})
        path = next((str(place["path"]) for place in rule.get("places", ())), "")
        is_rule = rule.get("kind") == "rule"
        return RuleSaid(ident, str(rule.get("action", "")), place_of(rule), path if is_rule else "")


def _address(raw: bytes, family: int) -> str:
    return str(IPv4Address(raw[:4]) if family == 4 else IPv6Address(raw))


def _reason(name: str) -> str:
    return name.removeprefix("PC_DROP_").lower().replace("_", " ")


def _shown_time(since_epoch_ns: int) -> str:
    seconds, rest = divmod(since_epoch_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03}Z"
