# SPDX-License-Identifier: Apache-2.0
"""`make test-kernels` and `make kernel-table`: build the corpus, load it on every kernel, compare.

    python -m tests.kernel_corpus.run [--record] [--kernels host,6.1,6.12] [NAME...]

Exit code: 0 all is within its bounds; 1 something is not; 3 a guest could not be run.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kernel_corpus import budget
from tests.kernel_corpus.build import build
from tests.kernel_corpus.case import CorpusCase
from tests.kernel_corpus.corpus import cases_named
from tests.kernel_corpus.page import PAGE, page

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "kernel-corpus"
GUEST = ROOT / "tests" / "guest" / "run.sh"
KERNELS = "host,6.1,6.12"
GUEST_SECONDS = 1800
"""After which a guest is taken for hung; a quiet machine needs a tenth of it."""


class NoGuestError(Exception):
    """A guest did not come to its answer; the guest's script has said why."""


def result_on(kernel: str, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """The result of tests/kernel_corpus/load.py on `host` or in a guest of this series."""
    result = FOLDER / f"result-{kernel}.json"
    result.unlink(missing_ok=True)
    load = [".venv/bin/python", "-m", "tests.kernel_corpus.load", str(FOLDER.relative_to(ROOT))]
    if kernel == "host":
        command = [*load, str(result), *names]
    else:
        # The guest's results come through a folder of its own: the rest is read-only there.
        result = ROOT / "build" / "guest" / kernel / "out" / "result.json"
        command = [str(GUEST), kernel, *load, "/run/out/result.json", *names]
    environment = {"GUEST_SECONDS": str(GUEST_SECONDS), **os.environ}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if done.returncode not in (0, 1) or not result.exists():
        raise NoGuestError(f"{kernel}: exit code {done.returncode}, no result")
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def main() -> int:
    """Print the faults, or the number of bundles within their bounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true", help="write the table, do not compare")
    parser.add_argument("--kernels", default=KERNELS, help=f"default: {KERNELS}")
    parser.add_argument("names", nargs="*", help="bundles; without: all")
    given = parser.parse_args()
    if given.record and (given.names or given.kernels != KERNELS):
        parser.error("--record takes every bundle on every kernel")
    cases = cases_named(tuple(given.names))
    with _alone():
        return _run(given, cases)


@contextmanager
def _alone() -> Iterator[None]:
    """One run at a time: they share a folder."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(given: argparse.Namespace, cases: tuple[CorpusCase, ...]) -> int:
    start = time.monotonic()
    build(cases, FOLDER)
    print(f"{len(cases)} cases compiled in {time.monotonic() - start:.0f} s", flush=True)
    built = budget.read_built(FOLDER, [case.name for case in cases])
    names = tuple(case.name for case in cases if not built.refused[case.name])
    try:
        results = [result_on(kernel, names) for kernel in given.kernels.split(",")]
    except NoGuestError as failure:
        print(failure, file=sys.stderr)
        return 3
    return _record(built, results) if given.record else _compare(built, results)


def _record(built: budget.Built, results: list[dict[str, Any]]) -> int:
    table = budget.make_table(built, sorted(results, key=_version))
    found = budget.findings(table, built, results)
    if found:  # refused by a kernel, or wrong: nothing to record
        print("\n".join(found))
        return 1
    budget.write_table(table)
    PAGE.write_text(page(table))
    print(f"{budget.TABLE.relative_to(ROOT)} and {PAGE.relative_to(ROOT)} are written")
    return 0


def _version(result: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(part) for part in budget.series(result["kernel"]).split("."))


def _compare(built: budget.Built, results: list[dict[str, Any]]) -> int:
    found = budget.findings(budget.read_table(), built, results)
    print("\n".join(found), end="\n" if found else "")
    refused = sum(map(bool, built.refused.values()))
    print(
        f"{len(built.what)} bundles, {refused} of them refused by the compiler as the table says, on"
        f" Linux {', '.join(result['kernel'] for result in results)}: "
        + (f"{len(found)} findings" if found else "all within their bounds")
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
