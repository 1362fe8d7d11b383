# SPDX-License-Identifier: Apache-2.0
"""Milliseconds from an edit to its first and to its complete diagnostics.

`python tests/bench/editor.py [POLICIES]`. If the check of the edited file takes longer than the server's
FIRST_S, the first diagnostics are what is known without it.

The policies are those of scale.py, one file each, without a cluster. A client of the protocol opens 40
of the files, and edits each: a comment, or another protocol. Opening and the check of all files are not
measured.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

import yaml
from lsprotocol import types
from scale_cases import scenario

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.end_to_end.editor import Editor, editor

from policyc.compiler.editor.server import FIRST_S

N_FILES = 40


def write(folder: Path, n: int) -> list[str]:
    """Write the policies; the names of the NetworkPolicies' files and of the others'."""
    names = []
    for at, policy in enumerate(scenario(n)[0]):
        names.append(f"p{at:05}-{policy['kind']}.yaml")
        (folder / names[-1]).write_text(yaml.safe_dump(policy, sort_keys=False))
    return names


async def measure(folder: Path, names: list[str]) -> list[tuple[float, float]]:
    """The milliseconds of each edit until the first and the complete findings of the file."""
    found = []
    async with editor(folder) as at:
        for number, name in enumerate(names):
            at.open(name)
            await both(at, name, 1)
            text = (folder / name).read_text()
            text = (
                text.replace("protocol: TCP", "protocol: UDP")
                if number % 2
                else f"{text}# edited\n"
            )
            first, complete, shown = await both(at, name, at.edit(name, text))
            found.append((first * 1000, complete * 1000))
            assert all(each.code for each in shown), "a file is not checked"
    return found


async def both(at: Editor, name: str, version: int) -> tuple[float, float, list[types.Diagnostic]]:
    """The seconds until the first and the complete findings of a version, and the latter."""
    start = time.perf_counter()
    shown = await at.until(name, lambda _: True, version)
    first = time.perf_counter() - start
    if first >= FIRST_S:
        shown = await at.until(name, lambda _: True, version, len(at.published))
    return first, time.perf_counter() - start, shown


def main() -> None:
    """Print the times for NetworkPolicies, and for policies of many namespaces."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        names = write(folder, n)
        plain = [name for name in names if name.endswith("-NetworkPolicy.yaml")]
        others = [name for name in names if name not in plain]
        for title, chosen in (
            ("NetworkPolicy", plain[:: max(1, len(plain) // N_FILES)][:N_FILES]),
            ("AdminNetworkPolicy and BaselineAdminNetworkPolicy", others[:N_FILES]),
        ):
            pairs = asyncio.run(measure(folder, chosen))
            for what, given in zip(("first", "complete"), zip(*pairs, strict=True), strict=True):
                times = sorted(given)
                median = statistics.median(times)
                print(
                    f"{n} policies, {len(times)} edits of {title}, {what}: median {median:.0f} ms, "
                    f"90 % {times[len(times) * 9 // 10]:.0f} ms, most {times[-1]:.0f} ms"
                )


if __name__ == "__main__":
    main()
