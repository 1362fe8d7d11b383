# SPDX-License-Identifier: Apache-2.0
"""`policyc node follow` as a process: the events of its watch, and its acknowledgements."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.node_under_test import NodeUnderTest

FOLLOW = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from policyc.compiler.cli.stopped import stopped_by_signals
from policyc.runtime.errors import NodeError
from policyc.runtime.services.follow import follow

stream, bpffs, state = map(Path, sys.argv[1:])
with stopped_by_signals() as signals:
    try:
        follow(
            [stream],
            told=lambda applied: print(json.dumps(asdict(applied)), flush=True),
            is_over=lambda: bool(signals),
            bpffs=bpffs,
            state_root=state,
            settled=0.1,
            warn=lambda message: print(message, file=sys.stderr),
        )
    except NodeError as error:
        print(error.message, file=sys.stderr)
        sys.exit(error.exit_code)
"""


class Follower:
    """What `policyc node follow` does, on a pipe."""

    def __init__(self, node: NodeUnderTest, folder: Path) -> None:
        fifo = folder / "watch"
        os.mkfifo(fifo)
        words = [sys.executable, "-c", FOLLOW, fifo, node.bpffs, node.state_root]
        self.process = subprocess.Popen(
            [str(word) for word in words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pipe = fifo.open("w")

    def write(self, text: str) -> None:
        self.pipe.write(text)
        self.pipe.flush()

    def tell(self, *events: object) -> None:
        self.write("".join(json.dumps(event, indent=2) + "\n" for event in events))

    def acknowledged(self) -> dict[str, Any]:
        """What was put in force next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.end()
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> tuple[int, str]:
        """Its exit code and complaints, when the watch has ended."""
        self.pipe.close()
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said

    def kill(self) -> None:
        """End it, however far it is; nothing of it stays."""
        with suppress(BrokenPipeError):
            self.pipe.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()  # closes its pipes, too


def told(objects: list[JsonValue], kind: str = "ADDED") -> list[dict[str, Any]]:
    return [{"type": kind, "object": each.raw} for each in objects]
