# SPDX-License-Identifier: Apache-2.0
"""The kernel's helpers by number (enum bpf_func_id), and models of the helpers that can be computed.

An `Oracle` answers the helpers in `ASKED`. Any other number is an error.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Protocol

from policyc.verifier.bytecode.errors import FaultError, UnmodelledError
from policyc.verifier.bytecode.machine import Called, TailCall
from policyc.verifier.bytecode.maps import Map
from policyc.verifier.bytecode.pointers import CONTEXT, MapReference, Pointer, RingRecord
from policyc.verifier.bytecode.ring_buffer import RingBuffer, discard
from policyc.verifier.bytecode.state import State
from policyc.verifier.bytecode.values import mask, number

EFAULT, EINVAL = 14, 22
_INT_MAX = (1 << 31) - 1
_STORE_FLAGS = 0x3  # BPF_F_RECOMPUTE_CSUM, BPF_F_INVALIDATE_HASH
_TC_SHOT, _TC_REDIRECT = 2, 7
_F_INGRESS = 1


class Helper(IntEnum):
    """BPF_FUNC_*: the helpers that are known here."""

    MAP_LOOKUP_ELEM = 1
    MAP_UPDATE_ELEM = 2
    MAP_DELETE_ELEM = 3
    KTIME_GET_NS = 5
    GET_PRANDOM_U32 = 7
    GET_SMP_PROCESSOR_ID = 8
    SKB_STORE_BYTES = 9
    L3_CSUM_REPLACE = 10
    L4_CSUM_REPLACE = 11
    TAIL_CALL = 12
    SKB_VLAN_POP = 19
    SKB_GET_TUNNEL_KEY = 20
    SKB_SET_TUNNEL_KEY = 21
    REDIRECT = 23
    SKB_LOAD_BYTES = 26
    CSUM_DIFF = 28
    SKB_CHANGE_TYPE = 32
    SKB_CHANGE_TAIL = 38
    XDP_ADJUST_HEAD = 44
    GET_SOCKET_COOKIE = 46
    SKB_ADJUST_ROOM = 50
    FIB_LOOKUP = 69
    SK_LOOKUP_TCP = 84
    SK_RELEASE = 86
    SKC_LOOKUP_TCP = 99
    PROBE_READ_KERNEL = 113
    JIFFIES64 = 118
    GET_NETNS_COOKIE = 122
    RINGBUF_RESERVE = 131
    RINGBUF_SUBMIT = 132
    RINGBUF_DISCARD = 133
    SKC_TO_TCP_SOCK = 137
    REDIRECT_NEIGH = 152
    REDIRECT_PEER = 155
    CHECK_MTU = 163
    SET_RETVAL = 187


ASKED = frozenset(
    {
        Helper.KTIME_GET_NS,
        Helper.GET_PRANDOM_U32,
        Helper.GET_SMP_PROCESSOR_ID,
        Helper.L3_CSUM_REPLACE,
        Helper.L4_CSUM_REPLACE,
        Helper.SKB_VLAN_POP,
        Helper.SKB_GET_TUNNEL_KEY,
        Helper.SKB_SET_TUNNEL_KEY,
        Helper.REDIRECT,
        Helper.CSUM_DIFF,
        Helper.SKB_CHANGE_TYPE,
        Helper.SKB_CHANGE_TAIL,
        Helper.XDP_ADJUST_HEAD,
        Helper.GET_SOCKET_COOKIE,
        Helper.SKB_ADJUST_ROOM,
        Helper.FIB_LOOKUP,
        Helper.SK_LOOKUP_TCP,
        Helper.SK_RELEASE,
        Helper.SKC_LOOKUP_TCP,
        Helper.SKC_TO_TCP_SOCK,
        Helper.PROBE_READ_KERNEL,
        Helper.JIFFIES64,
        Helper.GET_NETNS_COOKIE,
        Helper.REDIRECT_NEIGH,
        Helper.REDIRECT_PEER,
        Helper.CHECK_MTU,
        Helper.SET_RETVAL,
    }
)
"""Their results depend on data outside the state: time, chance, routes, devices, sockets, offloads."""

CHANGES_PACKET = frozenset(
    {
        Helper.SKB_STORE_BYTES,
        Helper.L3_CSUM_REPLACE,
        Helper.L4_CSUM_REPLACE,
        Helper.SKB_VLAN_POP,
        Helper.SKB_CHANGE_TAIL,
        Helper.XDP_ADJUST_HEAD,
        Helper.SKB_ADJUST_ROOM,
    }
)
"""After these helpers pointers to the packet are invalid (bpf_helper_changes_pkt_data)."""

WRITES = {
    Helper.SKB_GET_TUNNEL_KEY: 2,
    Helper.FIB_LOOKUP: 2,
    Helper.PROBE_READ_KERNEL: 1,
    Helper.CHECK_MTU: 3,
}
"""For helpers in `ASKED`: the register that points to their output, whose bytes the answer must give."""


class Surroundings(Protocol):
    """The environment that the models need beside the state."""

    def map(self, name: str) -> Map:
        """A map by its name."""

    def ring(self, name: str) -> RingBuffer:
        """A ring buffer by its name."""

    def packet(self, state: State) -> bytes:
        """All of the packet, including the part behind its linear data."""

    def replace_packet(self, state: State, data: bytes) -> None:
        """Replace the packet; pointers to the old one become invalid."""


Model = Callable[[Surroundings, State], Called | TailCall]


def _errno(value: int) -> Called:
    return Called(value & mask(64))


def _map_of(state: State, register: int) -> str:
    region = state.pointer(register).region
    if not isinstance(region, MapReference):
        raise FaultError(f"r{register} is no map")
    return region.map


def _read(state: State, pointer: Pointer, size: int) -> bytes:
    return number(state.load_bits(pointer, size)).to_bytes(size, "little")


def _key(state: State, found: Map) -> bytes:
    return _read(state, state.pointer(2), found.definition.key_size)


def _map_lookup(around: Surroundings, state: State) -> Called:
    found = around.map(_map_of(state, 1))
    return Called(found.lookup(state, _key(state, found)))


def _map_update(around: Surroundings, state: State) -> Called:
    found = around.map(_map_of(state, 1))
    key, flags = _key(state, found), number(state.scalar(4))
    value = _read(state, state.pointer(3), found.definition.value_size)
    return _errno(found.update(state, key, value, flags))


def _map_delete(around: Surroundings, state: State) -> Called:
    found = around.map(_map_of(state, 1))
    return _errno(found.delete(state, _key(state, found)))


def _tail_call(_: Surroundings, state: State) -> TailCall:
    _check_context(state, 1)
    if state.callers:
        raise UnmodelledError("a tail call within a call")
    return TailCall(_map_of(state, 2), number(state.scalar(3)) & mask(32))


def _check_context(state: State, register: int) -> None:
    pointer = state.pointer(register)
    if pointer.region != CONTEXT or pointer.offset != 0:
        raise FaultError(f"r{register} is not the context")


def _skb_load_bytes(around: Surroundings, state: State) -> Called:
    """As skb_header_pointer; the buffer is cleared if the packet is too short."""
    _check_context(state, 1)
    offset, size = number(state.scalar(2)) & mask(32), number(state.scalar(4)) & mask(32)
    if not size:
        raise FaultError("no bytes are loaded")
    data = around.packet(state)[offset : offset + size]
    is_there = offset <= _INT_MAX and len(data) == size
    written = data if is_there else bytes(size)
    state.store(state.pointer(3), size, int.from_bytes(written, "little"))
    return _errno(0 if is_there else -EFAULT)


def _skb_store_bytes(around: Surroundings, state: State) -> Called:
    """Pointers to the packet become invalid even if nothing was written."""
    _check_context(state, 1)
    offset, size = number(state.scalar(2)) & mask(32), number(state.scalar(4)) & mask(32)
    written = _read(state, state.pointer(3), size)
    packet = around.packet(state)
    is_known = not number(state.scalar(5)) & ~_STORE_FLAGS
    is_there = offset <= _INT_MAX and offset + size <= len(packet)
    if is_known and is_there:
        packet = packet[:offset] + written + packet[offset + size :]
    around.replace_packet(state, packet)
    return _errno(-EINVAL if not is_known else 0 if is_there else -EFAULT)


def _ring_reserve(around: Surroundings, state: State) -> Called:
    ring = around.ring(_map_of(state, 1))
    return Called(ring.reserve(state, number(state.scalar(2)), number(state.scalar(3))))


def _ring_submit(around: Surroundings, state: State) -> Called:
    record = state.pointer(1)
    if not isinstance(record.region, RingRecord):
        raise FaultError("r1 is no record")
    around.ring(record.region.map).submit(state, record)
    return Called(None)


def _ring_discard(_: Surroundings, state: State) -> Called:
    discard(state, state.pointer(1))
    return Called(None)


MODELS: Mapping[Helper, Model] = {
    Helper.MAP_LOOKUP_ELEM: _map_lookup,
    Helper.MAP_UPDATE_ELEM: _map_update,
    Helper.MAP_DELETE_ELEM: _map_delete,
    Helper.TAIL_CALL: _tail_call,
    Helper.SKB_LOAD_BYTES: _skb_load_bytes,
    Helper.SKB_STORE_BYTES: _skb_store_bytes,
    Helper.RINGBUF_RESERVE: _ring_reserve,
    Helper.RINGBUF_SUBMIT: _ring_submit,
    Helper.RINGBUF_DISCARD: _ring_discard,
}


def helper(number_: int) -> Helper:
    """The helper with a number; UnmodelledError for one that is not known here."""
    try:
        return Helper(number_)
    except ValueError as error:
        raise UnmodelledError(f"helper {number_}") from error
