# SPDX-License-Identifier: Apache-2.0
"""Lists that the kernel tells in parts, and that change meanwhile, are read again."""

import errno
from collections.abc import Callable, Iterator

import pytest
from pyroute2.netlink.exceptions import NetlinkDumpInterrupted, NetlinkError

from policyc.runtime.kernel import rtnetlink

MULTI, INTERRUPTED = 0x02, 0x10
Message = dict[str, dict[str, int]]


def message(number: int, flags: int = MULTI) -> Message:
    return {"header": {"flags": flags, "sequence_number": number}}


def told(*readings: Callable[[], Iterator[Message]]) -> tuple[list[int], int]:
    """The final answer, and the number of reads."""
    times = 0

    def read() -> Iterator[Message]:
        nonlocal times
        times += 1
        return readings[min(times, len(readings)) - 1]()

    return [each["header"]["sequence_number"] for each in rtnetlink.dump(read)], times


def whole() -> Iterator[Message]:
    yield from (message(1), message(2))


def marked() -> Iterator[Message]:
    yield from (message(1), message(3, MULTI | INTERRUPTED))


def raised() -> Iterator[Message]:
    yield message(1)
    raise NetlinkDumpInterrupted


def refused() -> Iterator[Message]:
    yield message(1)
    raise NetlinkError(errno.ENODEV)


def nothing() -> Iterator[Message]:
    yield from ()


def test_an_uninterrupted_answer_is_read_once() -> None:
    assert told(whole) == ([1, 2], 1)
    assert told(nothing) == ([], 1)


@pytest.mark.parametrize("broken", [marked, raised])
def test_an_interrupted_answer_is_read_again(broken: Callable[[], Iterator[Message]]) -> None:
    assert told(broken, whole) == ([1, 2], 2)
    assert told(broken, raised, marked, whole) == ([1, 2], 4)


@pytest.mark.parametrize("broken", [marked, raised])
def test_a_dump_that_keeps_changing_is_given_up(
    broken: Callable[[], Iterator[Message]],
) -> None:
    with pytest.raises(OSError, match="keeps changing") as error:
        told(broken)
    assert error.value.errno == errno.EAGAIN


def test_an_error_of_the_kernel_is_not_retried() -> None:
    with pytest.raises(NetlinkError) as error:
        told(refused, whole)
    assert error.value.code == errno.ENODEV
