# SPDX-License-Identifier: Apache-2.0
"""The contexts of programs: their fields, the legal accesses, and the fields that point to packets.

The layouts are those of <linux/bpf.h>. The legal reads and writes are those of the kernel's
tc_cls_act_is_valid_access, xdp_is_valid_access and sock_addr_is_valid_access. Access to a field that is
not listed here is an error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from policyc.verifier.bytecode.errors import FaultError, UnmodelledError
from policyc.verifier.bytecode.memory import Cells, Memory, known_offset
from policyc.verifier.bytecode.pointers import Packet, Pointer, Value
from policyc.verifier.bytecode.values import Bits, Domain


@dataclass(frozen=True, slots=True)
class Field:
    """Bytes of a context. A `loose` field may be written in parts, any other only as a whole."""

    offset: int
    size: int = 4
    is_writable: bool = False
    loose: bool = False


@dataclass(frozen=True)
class Layout:
    """A kind of context.

    Its fields `data` and `data_end`, four bytes wide, point to the packet's ends.
    """

    size: int
    fields: Mapping[str, Field]
    data: int | None = None
    data_end: int | None = None


SKB = Layout(
    size=192,
    fields={
        "len": Field(0),
        "pkt_type": Field(4),
        "mark": Field(8, is_writable=True),
        "queue_mapping": Field(12, is_writable=True),
        "protocol": Field(16),
        "vlan_present": Field(20),
        "vlan_tci": Field(24),
        "vlan_proto": Field(28),
        "priority": Field(32, is_writable=True),
        "ingress_ifindex": Field(36),
        "ifindex": Field(40),
        "tc_index": Field(44, is_writable=True),
        "cb": Field(48, 20, is_writable=True, loose=True),
        "hash": Field(68),
        "tc_classid": Field(72, is_writable=True),
        "napi_id": Field(84),
        "tstamp": Field(152, 8, is_writable=True),
        "wire_len": Field(160),
        "gso_segs": Field(164),
        "gso_size": Field(176),
    },
    data=76,
    data_end=80,
)
XDP = Layout(
    size=24,
    fields={
        "ingress_ifindex": Field(12),
        "rx_queue_index": Field(16),
        "egress_ifindex": Field(20),
    },
    data=0,
    data_end=4,
)
SOCK_ADDR = Layout(
    size=72,
    fields={
        "user_family": Field(0),
        "user_ip4": Field(4, is_writable=True),
        "user_ip6": Field(8, 16, is_writable=True, loose=True),
        "user_port": Field(24, is_writable=True),
        "family": Field(28),
        "type": Field(32),
        "protocol": Field(36),
        "msg_src_ip4": Field(40, is_writable=True),
        "msg_src_ip6": Field(44, 16, is_writable=True, loose=True),
    },
)


class ContextMemory(Memory):
    """A context's fields, and its packet's two ends. A field without a value may not be read."""

    def __init__(
        self, domain: Domain, layout: Layout, packet: Packet | None = None, length: Bits = 0
    ) -> None:
        self.layout, self.packet, self.length = layout, packet, length
        self._domain = domain
        self._fields = Cells(domain, 0, layout.size)

    def set(self, name: str, value: Bits) -> None:
        """Set a field, as the kernel would."""
        found = self.layout.fields[name]
        self._fields.store(found.offset, found.size, value)

    def get(self, name: str) -> Bits:
        """The current value of a field."""
        found = self.layout.fields[name]
        value = self._fields.load(found.offset, found.size)
        if isinstance(value, Pointer):
            raise FaultError(f"{name} holds a pointer")
        return value

    def load(self, offset: Bits, size: int) -> Value:
        """A field, a part of one, or an end of the packet."""
        at = known_offset(offset)
        end = self._end(at, size)
        if end is not None:
            return end
        found = self._field(at, size)
        if not found.loose and (at % size or size not in (1, 2, 4, 8)):
            raise FaultError(f"{size} bytes at {at} of the context")
        return self._fields.load(at, size)

    def _end(self, at: int, size: int) -> Pointer | None:
        if self.packet is None or size != 4:
            return None
        if at == self.layout.data:
            return Pointer(self.packet)
        return Pointer(self.packet, self.length) if at == self.layout.data_end else None

    def _field(self, at: int, size: int) -> Field:
        for field in self.layout.fields.values():
            if field.offset <= at and at + size <= field.offset + field.size:
                return field
        raise UnmodelledError(f"{size} bytes at {at} of the context")

    def store(self, offset: Bits, size: int, value: Value) -> None:
        """Write a field that programs may write."""
        at = known_offset(offset)
        found = self._field(at, size)
        if not found.is_writable or not (found.loose or size == found.size):
            raise FaultError(f"{size} bytes at {at} of the context are written")
        if isinstance(value, Pointer):
            raise FaultError("a pointer is stored into the context")
        self._fields.store(at, size, value)

    def copy(self) -> "ContextMemory":
        """A copy with the same packet."""
        other = ContextMemory(self._domain, self.layout, self.packet, self.length)
        other._fields = self._fields.copy()
        return other

    def rewrite_pointers(self, change: Callable[[Pointer], Value]) -> None:
        """The ends of the packet are never null."""
