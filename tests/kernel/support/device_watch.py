# SPDX-License-Identifier: Apache-2.0
"""A follower of devices, run beside a test."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kernel.support.node_commands import Commands


class Follower:
    """The command, in a process of its own."""

    def __init__(self, commands: Commands, *words: str, streams: str = "") -> None:
        self._said = commands.node.folder / "follow.err"
        command = [sys.executable, "-m", "policyc.compiler.cli", "node", "follow"]
        words = ("--bpffs", str(commands.node.bpffs), *words)
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [*command, *words, *streams.split()],
                stderr=said, stdout=said, stdin=subprocess.PIPE,
            )  # fmt: skip

    @property
    def stdin(self) -> int:
        assert self._process.stdin
        return self._process.stdin.fileno()

    def said(self) -> str:
        return self._said.read_text()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            code = self._process.wait(30)
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin
            self._process.stdin.close()
        return code


@contextmanager
def following(commands: Commands, *words: str, streams: str = "") -> Iterator[Follower]:
    """Until the block ends, without an error."""
    made = Follower(commands, *words, streams=streams)
    try:
        yield made
    except BaseException:
        made.stop(signal.SIGKILL)
        raise
    assert made.stop() == 0, made.said()
