# SPDX-License-Identifier: Apache-2.0
"""One observed flow as every format gives it, and the typed access to fields of a JSON record."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from policyc.compiler.frontend.spelling import nearest
from policyc.compiler.frontend.yaml.tree import clipped


class Seen(IntEnum):
    """The end at which a record was made. A connection may be recorded at both ends."""

    ANYWHERE = 0
    SOURCE = 1
    DESTINATION = 2


class EndRecord(NamedTuple):
    """An end as recorded. `pod` may end in `*`; `labels` are `key=value`; empty: not recorded.

    `node` is the name of a node.
    """

    namespace: str = ""
    pod: str = ""
    labels: tuple[str, ...] = ()
    address: str = ""
    node: str = ""


class ServiceRecord(NamedTuple):
    """The protocol by name or number, and what belongs to it. `family` None: not recorded."""

    protocol: str
    port: int | None = None
    icmp_type: int | None = None
    icmp_code: int | None = None
    family: int | None = None


class FlowRecord(NamedTuple):
    """An observed flow. `times` is the number of connections or packets that the record stands for."""

    src: EndRecord
    dst: EndRecord
    service: ServiceRecord
    times: int = 1
    is_denied: bool = False
    seen: Seen = Seen.ANYWHERE


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that is understood and opens no connection, such as a reply; `why` is a plural noun."""

    why: str


class BadRecordError(Exception):
    """The record is not understood; `hint` is a remedy."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem, self.hint = problem, hint
        super().__init__(problem)


Record = Mapping[str, object]
_NOTHING: Record = {}


def text_of(record: Record, field: str) -> str:
    """The text of a field; empty if it is absent or null."""
    value = record.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRecordError(f"`{field}` is not text: {clipped(repr(value))}")
    return value


def number_of(record: Record, field: str) -> int | None:
    """The number of a field; None if it is absent or null."""
    value = record.get(field)
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)  # 64-bit numbers of protobuf are texts in JSON
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadRecordError(f"`{field}` is not a number: {clipped(repr(value))}")
    return value


def object_of(record: Record, field: str) -> Record:
    """The object of a field; empty if it is absent or null."""
    value = record.get(field)
    if value is None:
        return _NOTHING
    if not isinstance(value, Mapping):
        raise BadRecordError(f"`{field}` is not an object: {clipped(repr(value))}")
    return value


def texts_of(record: Record, field: str) -> list[str]:
    """The list of texts of a field; empty if it is absent or null."""
    value = record.get(field)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadRecordError(f"`{field}` is not a list of texts: {clipped(repr(value))}")
    return value


def chosen(value: str, known: Mapping[str, bool | None], field: str) -> bool | None:
    """The meaning of a word among those that a field may have."""
    if value not in known:
        near = nearest(value, known)
        hint = f"did you mean `{near}`?" if near else f"one of {', '.join(known)}"
        raise BadRecordError(f"`{field}` is {clipped(repr(value))}", hint)
    return known[value]
