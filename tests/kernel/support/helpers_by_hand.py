# SPDX-License-Identifier: Apache-2.0
"""What helpers of the kernel do that the executor asks about: checksums of a frame, sizes of devices.

As of net/core/filter.c, for a frame none of whose checksums is left to a device.
"""

import socket
import struct
from dataclasses import replace
from fcntl import ioctl

from policyc.verifier.bytecode.context import ContextMemory
from policyc.verifier.bytecode.memory import Bytes
from policyc.verifier.bytecode.oracle import Answer
from policyc.verifier.bytecode.pointers import CONTEXT, Packet
from policyc.verifier.bytecode.state import State
from policyc.verifier.bytecode.values import mask, number

EINVAL = 22
_SIZE, _PSEUDO, _MANGLED, _ENFORCED = 0xF, 0x10, 0x20, 0x40
_INGRESS = 1
_SHOT, _REDIRECT = 2, 7
_SIOCGIFMTU = 0x8921
_IFREQ_NAME, _IFREQ = 16, 40


def packet_of(state: State) -> bytes:
    """The frame as it is now."""
    context = state.of(CONTEXT)
    assert isinstance(context, ContextMemory)
    held = state.of(context.packet or Packet())
    assert isinstance(held, Bytes)
    return bytes(held.data)


def argument(state: State, register: int, bits: int = 64) -> int:
    """The number in a register."""
    return number(state.scalar(register)) & mask(bits)


def add(one: int, other: int) -> int:
    """The sum of two of 32 bits in one's complement."""
    total = one + other
    return (total + (total >> 32)) & mask(32)


def fold(total: int) -> int:
    """The checksum of a sum."""
    while total >> 16:
        total = (total & mask(16)) + (total >> 16)
    return ~total & mask(16)


def replaced(check: int, before: int, after: int, size: int) -> int:
    """The checksum when a field of as many bytes has changed; of size 0 `after` is the difference."""
    total = ~check & mask(32)
    if size:
        total = add(total, ~before & mask(32))
    return fold(add(total, after))


def replace_checksum(state: State, *, is_l4: bool) -> Answer:
    """bpf_l3_csum_replace, bpf_l4_csum_replace."""
    packet, at = packet_of(state), argument(state, 2, 32)
    flags = argument(state, 5)
    size = flags & _SIZE
    before, after = argument(state, 3, 32), argument(state, 4, 32)
    assert size in (0, 2, 4) and at + 2 <= len(packet)
    assert size or not before, "a difference alone"
    check = int.from_bytes(packet[at : at + 2], "little")
    is_mangled = bool(flags & _MANGLED) and is_l4
    if is_mangled and not flags & _ENFORCED and not check:
        return Answer(0)
    check = replaced(check, before, after, size)
    if is_mangled and not check:
        check = mask(16)
    return Answer(0, packet=packet[:at] + check.to_bytes(2, "little") + packet[at + 2 :])


def checksum_difference(state: State) -> Answer:
    """bpf_csum_diff: the seed, without the words before, with those after."""
    total = argument(state, 5, 32)
    for register, is_before in ((1, True), (3, False)):
        size = argument(state, register + 1, 32)
        for at in range(0, size, 4):
            start = state.pointer(register)
            place = replace(start, offset=(number(start.offset) + at) & mask(64))
            word = number(state.load_bits(place, 4))
            total = add(total, ~word & mask(32) if is_before else word)
    return Answer(total)


def check_mtu(state: State, ifindex: int) -> Answer:
    """bpf_check_mtu of a frame, not of a length that is given."""
    device = argument(state, 2, 32) or ifindex
    mtu = mtu_of(device)
    fits = len(packet_of(state)) + argument(state, 4, 32) <= mtu + 14
    return Answer(0 if fits else 1, written={3: struct.pack("=I", mtu)})


def mtu_of(ifindex: int) -> int:
    """Of a device in this namespace."""
    name = socket.if_indextoname(ifindex).encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        found = ioctl(any_socket, _SIOCGIFMTU, name.ljust(_IFREQ, b"\0"))
    return int(struct.unpack_from("=i", found, _IFREQ_NAME)[0])


def redirect(state: State) -> Answer:
    """bpf_redirect: the verdict alone."""
    return Answer(_SHOT if argument(state, 2) & ~_INGRESS else _REDIRECT)


def no_tunnel_key(state: State) -> Answer:
    """bpf_skb_get_tunnel_key of a frame that came out of no tunnel: what is asked for is cleared."""
    return Answer(-EINVAL, written={2: bytes(argument(state, 3, 32))})
