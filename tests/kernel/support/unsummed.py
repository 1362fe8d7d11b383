# SPDX-License-Identifier: Apache-2.0
"""Packets with a wrong checksum."""

import socket
import struct

_SOL_PACKET, _PACKET_VNET_HDR = 263, 15


def send_unsummed(device: str, frame_: bytes, start: int, offset: int) -> None:
    """Leave the checksum from `start` on, which goes to `offset` from there, to the kernel."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((f"{device}.p", 0))
        wire.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        wire.send(struct.pack("=BBHHHH", 1, 0, 0, 0, start, offset) + frame_)
