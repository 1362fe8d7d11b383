# SPDX-License-Identifier: Apache-2.0
"""What `policyc compile` costs: `python tests/bench/compile.py [N ...] [--json FILE]` (100, 1000, 5000).

N policies over N pods (`synthetic.py`), YAML to bundle with the proof. A row a case, CPU seconds of the
whole process, user and system, clang included: Python alone; without a cache; with an empty one; with a
full one, same input; and with a full one after one policy of N was changed. Where a run is short, it is
the median of several. The bundles with and without are compared.
"""

import argparse
import filecmp
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import synthetic

SIZES = (100, 1000, 5000)
_DOCUMENT = "\n---\n"
_TIMES = 9
"""Runs of what is short."""


def cpu_of(*arguments: str, cwd: Path) -> tuple[float, float]:
    """(CPU seconds, peak MB) of one run of Python and its children; SystemExit where it fails.

    Bytecode is kept, as it is of what is installed.
    """
    pid = os.fork()
    if pid == 0:
        os.chdir(cwd)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.execv(sys.executable, [sys.executable, *arguments])
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"python {' '.join(arguments)} failed with {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def change_one(path: Path, number: int) -> None:
    """Another port in one policy of the file."""
    documents = path.read_text().split(_DOCUMENT)
    changed = re.sub(r"port: (\d+)", lambda found: f"port: {int(found[1]) + 1}", documents[number])
    if changed == documents[number]:
        raise SystemExit(f"policy {number} has no port to change")
    documents[number] = changed
    path.write_text(_DOCUMENT.join(documents))


def is_same(one: Path, other: Path) -> bool:
    """Whether two directories have the same files with the same bytes."""
    names = [{p.relative_to(d) for p in d.rglob("*") if p.is_file()} for d in (one, other)]
    return names[0] == names[1] and all(
        filecmp.cmp(one / name, other / name, shallow=False) for name in names[0]
    )


def measured(n: int, folder: Path) -> list[dict[str, Any]]:
    """The rows of one size."""
    synthetic.write(n, folder)

    def run(case: str, times: int, *arguments: str) -> dict[str, Any]:
        runs = [cpu_of(*arguments, cwd=folder) for _ in range(times)]
        seconds = statistics.median(run[0] for run in runs)
        peak = max(run[1] for run in runs)
        return {"policies": n, "case": case, "cpu_s": round(seconds, 3), "peak_mb": round(peak)}

    def row(case: str, out: str, *options: str, times: int = 1) -> dict[str, Any]:
        inputs = ("-f", "policies", "--cluster", "cluster")
        policyc = ("-m", "policyc.compiler.cli")
        return run(case, times, *policyc, "compile", *inputs, "-o", out, *options)

    rows = [
        run("Python alone", _TIMES, "-c", "pass"),
        row("no cache", "plain"),
        row("empty cache", "cached", "--cache", "cache"),
        row("full cache, same input", "again", "--cache", "cache", times=_TIMES),
    ]
    change_one(folder / "policies" / "all.yaml", n // 2)
    changed = "full cache, one policy changed"
    rows.append(row(changed, "changed", "--cache", "cache", times=_TIMES))
    row("no cache, one policy changed", "changed-plain")
    for one, other in (("plain", "cached"), ("plain", "again"), ("changed-plain", "changed")):
        if not is_same(folder / one, folder / other):
            raise SystemExit(f"{n}: the bundles {one} and {other} differ")
    return rows


def main() -> None:
    """Measure, print a table, and write JSON if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--json", default="")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'policies':>8}  {'case':32}  {'CPU s':>7}  {'peak MB':>7}")
    for n in given.sizes:
        with tempfile.TemporaryDirectory() as folder:
            for row in measured(n, Path(folder)):
                rows.append(row)
                print(
                    f"{n:>8}  {row['case']:32}  {row['cpu_s']:>7.3f}  {row['peak_mb']:>7}",
                    flush=True,
                )
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
