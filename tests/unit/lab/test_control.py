# SPDX-License-Identifier: Apache-2.0
"""A wait beside the control flow ends after its time, and not before the event loop had its turns."""

import asyncio
import socket
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from policyc.runtime.lab import control
from policyc.runtime.lab.children import LabError
from policyc.runtime.lab.control import ControlFlow


def run(work: Coroutine[Any, Any, float], flow: ControlFlow) -> float:
    return asyncio.run(flow.beside(work))


def stall() -> None:
    """Take 50 ms of every turn of the event loop, from now on."""
    time.sleep(0.05)
    asyncio.get_running_loop().call_soon(stall)


async def pass_turns(n_turns: int) -> None:
    for _ in range(n_turns):
        await asyncio.sleep(0)


async def wait_for_silence(flow: ControlFlow, seconds: float) -> float:
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        async with flow.timeout(seconds):
            await asyncio.get_running_loop().create_future()
    return time.monotonic() - start


def test_a_wait_without_an_answer_ends_after_its_time() -> None:
    with ControlFlow.open() as flow:
        assert run(wait_for_silence(flow, 0.1), flow) >= 0.1


def test_a_wait_of_0_1_s_outlasts_ten_turns_of_a_stalled_loop() -> None:
    async def work() -> float:
        stall()
        start = time.monotonic()
        async with flow.timeout(0.1):
            await pass_turns(10)
        return time.monotonic() - start

    with ControlFlow.open() as flow:
        assert run(work(), flow) >= 0.5


def test_waits_of_different_length_end_in_order() -> None:
    async def work() -> float:
        brief, long = await asyncio.gather(wait_for_silence(flow, 0.1), wait_for_silence(flow, 0.3))
        return long - brief

    with ControlFlow.open() as flow:
        assert run(work(), flow) > 0.1


def test_a_body_that_ends_in_time_is_not_interrupted_later() -> None:
    async def work() -> float:
        async with flow.timeout(0.02):
            pass
        return await wait_for_silence(flow, 0.2)

    with ControlFlow.open() as flow:
        assert run(work(), flow) >= 0.2


def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> float:
        raise OSError("no such end")

    with ControlFlow.open() as flow, pytest.raises(OSError, match="no such end"):
        run(work(), flow)


def test_a_control_flow_without_an_echo_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_RESENT_AFTER", 0.01)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
    ):
        silent.bind(("127.0.0.1", 0))
        client.connect(silent.getsockname())
        for sock in (client, server):
            sock.setblocking(False)
        flow = ControlFlow(client, server)
        with pytest.raises(LabError, match="no echo over loopback"):
            run(wait_for_silence(flow, 60), flow)
