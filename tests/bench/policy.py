# SPDX-License-Identifier: Apache-2.0
"""Cost of a verdict: `python tests/bench/policy.py [--sizes 1,10,...] [--json FILE] [--plot PREFIX]`.

Verdict ns, net of a program that only fetches the flow, over the number of rules on one endpoint and
their kind (`policy_cases.py`), for this project's two backends, a build of generic tries, and linear
rule code (`policy_builds.py`). Three ways to ask: `hot`, the same flow always; `uniform`, 65,536 flows
over all rules; `cold`, the same with sixteen random lines of memory read before each. `known`: both ends
are, as the hooks hand them over; `looked up`: the other end is an address. All verdicts are compared.

Rounds are interleaved; medians are shown, and minima are in the JSON. Needs root and a quiet machine.
"""

import argparse
import json
import platform
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bpf_time import pin_to_one_cpu, private_bpffs, run
from policy_builds import N_FLOWS, Contender, decide, generic, linear, ours
from policy_cases import KINDS, BenchCase, bench_case

SIZES = (1, 10, 100, 1000, 10000)
WAYS = {"hot": (0, 0), "uniform": (N_FLOWS - 1, 0), "cold": (N_FLOWS - 1, 16)}
"""Name -> (mask of the flows that take part, lines of memory read before each)."""
LINEAR_LIMIT = 2000
"""Flows that linear code is asked in a run: at ten thousand rules each takes milliseconds."""
PIECES = 8
"""A sample is so many runs in a row, one after the other over the flows, of which the fastest counts."""
Row = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--without", default="", help="contenders to leave out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="write PREFIX.svg, PREFIX.png and PREFIX.md")
    asked = parser.parse_args(arguments)
    pin_to_one_cpu()
    rows: list[Row] = []
    with private_bpffs() as bpffs:
        for kind in asked.kinds.split(","):
            for size in map(int, asked.sizes.split(",")):
                case = bench_case(kind, size, N_FLOWS)
                rows += measured(case, asked.rounds, asked.without.split(","), bpffs)
                print_rows(rows[-1]["case"], [row for row in rows if row["case"] == case.name])
    result = {"machine": machine(), "rounds": asked.rounds, "rows": rows}
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")
    if asked.plot:
        from plots import plot_policy, table_policy

        plot_policy(result, asked.plot)
        table_policy(result, asked.plot.with_suffix(".md"))
    return 0


def machine() -> dict[str, str]:
    """The machine and kernel of this run."""
    model = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")), "")  # fmt: skip
    return {"kernel": platform.release(), "cpu": model}


def measured(case: BenchCase, rounds: int, without: list[str], bpffs: Path) -> list[Row]:
    """The rows of one case: a contender each, way and question."""
    with ExitStack() as held:
        contenders, refused = contenders_of(case, without, bpffs, held)
        for contender in contenders:
            compare_verdicts(case, contender)
        samples: dict[tuple[str, str, str], list[float]] = {}
        for _ in range(rounds):
            for way, (mask, washes) in WAYS.items():
                for contender in contenders:
                    for question, pair in contender.programs.items():
                        ns = net_ns(contender, pair, mask, washes, repeat_of(case, contender))
                        samples.setdefault((contender.name, question, way), []).append(ns)
        by_name = {contender.name: contender for contender in contenders}
        rows = [
            {
                "case": case.name,
                "kind": case.kind,
                "rules": len(case.rules),
                "contender": name,
                "question": question,
                "way": way,
                "ns": round(statistics.median(found), 1),
                "least": round(min(found), 1),
                "build_cpu_s": round(by_name[name].build_seconds, 3),
                "load_cpu_s": round(by_name[name].loaded.load_seconds, 3),
                "object_bytes": by_name[name].object_bytes,
            }
            for (name, question, way), found in samples.items()
        ]
        return rows + [
            {"case": case.name, "kind": case.kind, "rules": len(case.rules), "contender": name,
             "refused": why} for name, why in refused.items()
        ]  # fmt: skip


def contenders_of(
    case: BenchCase, without: list[str], bpffs: Path, held: ExitStack
) -> tuple[list[Contender], dict[str, str]]:
    """The builds that succeeded, and the reasons why others failed."""
    decided = decide(case)
    makers = {
        "c": lambda: ours(case, decided, "c", bpffs, held),
        "llvm": lambda: ours(case, decided, "llvm", bpffs, held),
        "generic": lambda: generic(case, bpffs, held),
        "linear": lambda: linear(case, bpffs, held),
    }
    found, refused = [], {}
    for name, make in makers.items():
        if name in without:
            continue
        try:
            found.append(make())
        except OSError as failure:
            if name != "linear":
                raise
            refused[name] = failure.strerror or str(failure)
    return found, refused


def compare_verdicts(case: BenchCase, contender: Contender) -> None:
    """Each of the first flows, one by one: SystemExit on the first verdict that is wrong."""
    for question, (program, _) in contender.programs.items():
        contender.set_flows(N_FLOWS - 1, 0)
        for at, allowed in enumerate(case.expected[:LINEAR_LIMIT]):
            _, answer = run(program, 1)
            if answer != (1 if allowed else 2):
                raise SystemExit(
                    f"{case.name}: {contender.name} ({question}) answers {answer} to flow {at}"
                    f" ({case.flows[at]}), expected {'allow' if allowed else 'deny'}"
                )


def repeat_of(case: BenchCase, contender: Contender) -> int:
    """Runs of a sample: all flows; fewer where one takes long."""
    if contender.name == "linear" and len(case.rules) > 100:
        return LINEAR_LIMIT
    return N_FLOWS


def net_ns(
    contender: Contender, pair: tuple[int, int], mask: int, washes: int, repeat: int
) -> float:
    """Nanoseconds of a verdict minus those of its baseline, measured in succession."""
    least = []
    for program in pair:
        contender.set_flows(mask, washes)
        least.append(min(run(program, repeat // PIECES)[0] for _ in range(PIECES)))
    return least[0] - least[1]


def print_rows(name: str, rows: list[Row]) -> None:
    """One line a contender and question."""
    lines: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if "refused" in row:
            print(f"{name:16} {row['contender']:8} refused: {row['refused']}")
            continue
        lines.setdefault((row["contender"], row["question"]), {})[row["way"]] = row["ns"]
    for (contender, question), ways in lines.items():
        numbers = "  ".join(f"{way} {ns:9.1f}" for way, ns in ways.items())
        print(f"{name:16} {contender:8} {question:10} {numbers}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
