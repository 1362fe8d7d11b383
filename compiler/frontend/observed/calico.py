# SPDX-License-Identifier: Apache-2.0
"""Flow logs of Calico: the flows of Whisker and Goldmane, and the files of Calico Enterprise.

A record stands for `num_flows_started` or `num_flows` connections; Whisker has neither, so the record
counts as one. A record of the source and one of the destination may be of the same connections.
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
    text_of,
    texts_of,
)

_IS_DENIED: dict[str, bool | None] = {"allow": False, "deny": True, "pass": None}
_SEEN = {"src": Seen.SOURCE, "dst": Seen.DESTINATION, "": Seen.ANYWHERE}
_NETWORKS = ("pub", "public network", "pvt", "private network")
"""The names of ends that are no endpoints."""
_COUNTS = ("num_flows_started", "num_flows", "num_connections_started")
_WITH_PORTS = ("tcp", "udp", "sctp", "6", "17", "132")


def is_calico(record: Record) -> bool:
    """Whether a record is Calico's."""
    return {"source_name", "dest_name"} <= record.keys()


def flow_of(record: Record) -> FlowRecord | Skipped:
    """The flow of one line; raises BadRecordError."""
    action = text_of(record, "action")
    is_denied = chosen(action.lower(), _IS_DENIED, "action")
    if is_denied is None:
        return Skipped("records of action pass")
    reporter = text_of(record, "reporter").lower()
    if reporter not in _SEEN:
        raise BadRecordError(f"`reporter` is {reporter!r}", "one of src, dst")
    return FlowRecord(
        _end(record, "source"),
        _end(record, "dest"),
        _service(record),
        _count(record),
        is_denied,
        _SEEN[reporter],
    )


def _count(record: Record) -> int:
    given = (number_of(record, field) for field in _COUNTS)
    return max(1, next((number for number in given if number is not None), 1))


def _service(record: Record) -> ServiceRecord:
    protocol = record.get("proto", record.get("protocol"))
    if not isinstance(protocol, str | int) or isinstance(protocol, bool) or protocol == "":
        raise BadRecordError("`proto` or `protocol` is missing")
    name = str(protocol).lower()
    return ServiceRecord(name, number_of(record, "dest_port") if name in _WITH_PORTS else None)


def _end(record: Record, end: str) -> EndRecord:
    """An end; `-` is Calico's word for nothing."""
    name, aggregated = _given(record, f"{end}_name"), _given(record, f"{end}_name_aggr")
    kind, address = _given(record, f"{end}_type"), _given(record, f"{end}_ip")
    is_network = name.lower() in _NETWORKS or aggregated.lower() in _NETWORKS
    if is_network or kind in ("net", "hep"):
        return EndRecord(address=address)
    labels = _labels(record, f"{end}_labels")
    return EndRecord(_given(record, f"{end}_namespace"), name or aggregated, labels, address)


def _given(record: Record, field: str) -> str:
    found = text_of(record, field)
    return "" if found == "-" else found


def _labels(record: Record, field: str) -> tuple[str, ...]:
    """`{"labels": ["a=b"]}`, `["a=b"]` or `a=b | c=d`."""
    given = record.get(field)
    if isinstance(given, dict):
        return tuple(sorted(texts_of(given, "labels")))
    if isinstance(given, list):
        return tuple(sorted(texts_of(record, field)))
    parts = (part.strip() for part in text_of(record, field).split("|"))
    return tuple(sorted(part for part in parts if "=" in part))
