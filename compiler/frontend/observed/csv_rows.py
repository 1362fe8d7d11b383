# SPDX-License-Identifier: Apache-2.0
"""Flows as CSV with a header of `_FIELDS`, of which src, dst and protocol are required.

An end is `namespace/pod`, `node/NAME` or an address, as in flow files of `policyc eval`.
"""

from collections.abc import Sequence

from policyc.compiler.frontend.kubernetes.addresses import parse_address
from policyc.compiler.frontend.observed.records import (
    BadRecordError,
    EndRecord,
    FlowRecord,
    Record,
    ServiceRecord,
    chosen,
    number_of,
    text_of,
)
from policyc.compiler.frontend.spelling import nearest
from policyc.compiler.frontend.yaml.tree import clipped

_NEEDED = ("src", "dst", "protocol")
_FIELDS = (*_NEEDED, "port", "count", "icmp_type", "icmp_code", "family", "verdict")
_IS_DENIED: dict[str, bool | None] = {"allowed": False, "denied": True, "": False}
HINT = f"the header is {','.join(_FIELDS)}; {', '.join(_NEEDED)} are required"
_NODE = "node/"


def check_header(header: Sequence[str]) -> None:
    """Whether the first row names known columns, each once; raises BadRecordError."""
    if not set(_NEEDED) & set(header):
        raise BadRecordError("the first line is not a header of flows", HINT)
    for column in header:
        if column not in _FIELDS:
            near = nearest(column, _FIELDS)
            hint = f"did you mean `{near}`?" if near else HINT
            raise BadRecordError(f"unknown column `{clipped(column)}`", hint)
        if header.count(column) > 1:
            raise BadRecordError(f"the column `{column}` is given twice")
    for column in _NEEDED:
        if column not in header:
            raise BadRecordError(f"the column `{column}` is missing", HINT)


def flow_of(record: Record) -> FlowRecord:
    """The flow of a row, as column -> cell without empty cells; raises BadRecordError."""
    for column in _NEEDED:
        if not record.get(column):
            raise BadRecordError(f"`{column}` is empty")
    family = number_of(record, "family")
    if family not in (None, 4, 6):
        raise BadRecordError("`family` is 4 or 6")
    count = number_of(record, "count")
    if count == 0:
        raise BadRecordError("`count` is 0")
    service = ServiceRecord(
        text_of(record, "protocol").lower(),
        number_of(record, "port"),
        number_of(record, "icmp_type"),
        number_of(record, "icmp_code"),
        family,
    )
    is_denied = bool(chosen(text_of(record, "verdict").lower(), _IS_DENIED, "verdict"))
    return FlowRecord(_end(record, "src"), _end(record, "dst"), service, count or 1, is_denied)


def _end(record: Record, column: str) -> EndRecord:
    text = text_of(record, column)
    if parse_address(text) is not None:
        return EndRecord(address=text)
    if text.startswith(_NODE):
        return EndRecord(node=text.removeprefix(_NODE))
    namespace, slash, pod = text.partition("/")
    if not (namespace and slash and pod) or "/" in pod:
        hint = "write namespace/pod, node/NAME, 10.0.0.1 or 2001:db8::1"
        raise BadRecordError(f"`{column}` is {clipped(repr(text))}", hint)
    return EndRecord(namespace, pod)
