# SPDX-License-Identifier: Apache-2.0
"""Flows of policyc's own nodes: the lines of `policyc node events --format json`."""

from policyc.compiler.frontend.observed.records import (
    EndRecord,
    FlowRecord,
    Record,
    Seen,
    ServiceRecord,
    Skipped,
    chosen,
    number_of,
    text_of,
)

_SCHEMA = "policyc.dev/node-event/"
_NODE = "node "
_IS_DENIED: dict[str, bool | None] = {"allowed": False, "denied": True}


def is_event(record: Record) -> bool:
    """Whether a record is an event of a node."""
    return str(record.get("schema", "")).startswith(_SCHEMA)


def flow_of(record: Record) -> FlowRecord | Skipped:
    """The flow of one line; raises BadRecordError."""
    kind = text_of(record, "kind")
    if kind != "connection":
        return Skipped(f"records of kind {kind}")
    if record.get("by_reply") is True:
        return Skipped("replies")
    at_source = record.get("egress") is not None
    return FlowRecord(
        _end(record, "source"),
        _end(record, "destination"),
        _service(record),
        1,
        bool(chosen(text_of(record, "verdict"), _IS_DENIED, "verdict")),
        Seen.SOURCE if at_source else Seen.DESTINATION,
    )


def _end(record: Record, end: str) -> EndRecord:
    name, address = text_of(record, end), text_of(record, f"{end}_address")
    if name.startswith(_NODE):
        return EndRecord(node=name.removeprefix(_NODE), address=address)
    namespace, _, pod = name.rpartition("/")
    return EndRecord(namespace, pod, (), address)


def _service(record: Record) -> ServiceRecord:
    protocol = text_of(record, "protocol").removeprefix("protocol ").lower()
    return ServiceRecord(
        protocol,
        number_of(record, "destination_port"),
        number_of(record, "icmp_type"),
        number_of(record, "icmp_code"),
    )
