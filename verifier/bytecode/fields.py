# SPDX-License-Identifier: Apache-2.0
"""Fields of a file's bytes: every read is checked, and a read past the end is an `ObjectError`."""

import struct

from policyc.verifier.bytecode.errors import ObjectError

MAX_STRING = 4096


def numbers(data: bytes, form: str, at: int, what: str) -> tuple[int, ...]:
    """The little-endian numbers of `struct`'s format letters at an offset; `what` is for the message."""
    size = struct.calcsize("<" + form)
    if at < 0 or at + size > len(data):
        raise ObjectError(f"{what} at {at} is not within {len(data)} bytes")
    return struct.unpack_from("<" + form, data, at)


def part(data: bytes, at: int, size: int, what: str) -> bytes:
    """`size` bytes at an offset."""
    if at < 0 or size < 0 or at + size > len(data):
        raise ObjectError(f"{what}: {size} bytes at {at} are not within {len(data)}")
    return data[at : at + size]


def text(strings: bytes, at: int, what: str) -> str:
    """The zero-terminated string at an offset of a table."""
    if not 0 <= at < len(strings):
        raise ObjectError(f"{what}: string {at} is not within {len(strings)} bytes")
    end = strings.find(b"\0", at, at + MAX_STRING)
    if end < 0:
        raise ObjectError(f"{what}: string {at} does not end")
    try:
        return strings[at:end].decode()
    except UnicodeDecodeError as error:
        raise ObjectError(f"{what}: string {at} is not UTF-8") from error
