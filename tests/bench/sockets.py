# SPDX-License-Identifier: Apache-2.0
"""Cost of TCP between two pods with a bypass: `python tests/bench/sockets.py [--rounds N]`.

CPU time of an operation, of both ends and of the kernel for them, as a ratio to plain routing between
the same veth pairs. Requests have an answer of the same size, on one connection; a stream is 64 KiB one
way in messages of a size. A connection that may be bypassed is measured after four seconds, by when it
is. nginx and Redis are measured too (sockets_programs.py).
`--other FOLDER` adds another bypass: the objects sockops.o and redir.o in the folder, whose maps are
pinned by name. Beds and rounds are as in datapath.py. Needs root, a C compiler and a quiet machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from datapath import built, ksoftirqd
from datapath_beds import VIP, Bed, nothing, ours, routed
from datapath_results import quartiles
from matplotlib import pyplot, rcParams
from policy import machine
from sockets_programs import PROGRAMS, request_ns

SIZES = 1, 64, 512, 1024, 4096, 16384, 65536
SMALLEST_OF_STREAM = 64
WARM_SECONDS, SHORTLY = 4, 1
REQUESTS, CONNECTIONS, STREAMED = 20000, 3000, 2 << 20
OTHERS_MAPS = "map_redir", "map_proxy", "map_active_estab"
DEFAULT_PINS = Path("/sys/fs/bpf")
CGROUPS = Path("/sys/fs/cgroup/unified")
WAYS = {
    "request": "requests and answers of so many bytes",
    "stream": "a stream in messages of so many bytes",
    "connect": "a connection for a request of 64 bytes",
    "program": "a request",
}
COLOURS = "#888888", "#bbbbbb", "#7fb2d9", "#1b6ca8", "#b23a48"
Case = tuple[str, int | str]
"""A way and a size, or the name of a program."""
Found = dict[Case, dict[str, list[float]]]
"""Case, bed -> nanoseconds of CPU for an operation, round by round."""


def main(arguments: list[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--warm", type=int, default=WARM_SECONDS)
    parser.add_argument("--other", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="write PREFIX.svg and PREFIX.md")
    asked = parser.parse_args(arguments)
    sizes = [int(each) for each in asked.sizes.split(",")]
    cases: list[Case] = [("request", size) for size in sizes]
    cases += [("stream", size) for size in sizes if size >= SMALLEST_OF_STREAM]
    cases += [("connect", 64)]
    cases += [("program", name) for name in PROGRAMS if name in asked.programs.split(",")]
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="pc-bench-")))
        built(folder)
        standing = [held.enter_context(routed(name, dress)) for name, dress in _beds()]
        own = held.enter_context(_cgroup())
        dress = ours(1, services=1, bypass="tcp", cgroup=own)
        standing.append(held.enter_context(routed("the same, to a Service", dress, VIP)))
        cgroups = {standing[-1].name: own}
        late = {bed.name for bed in standing[-2:]}
        if asked.other:
            standing.append(held.enter_context(routed("another bypass", nothing)))
            cgroups[standing[-1].name] = held.enter_context(_other(asked.other))
        found: Found = {case: {bed.name: [] for bed in standing} for case in cases}
        for number in range(asked.rounds):
            for bed in standing if number % 2 else standing[::-1]:
                for case in cases:
                    warm = asked.warm if bed.name in late else SHORTLY
                    spent = _operation(folder, bed, *case, warm, cgroups.get(bed.name))
                    found[case][bed.name].append(spent)
    result = {
        "machine": machine(),
        "rounds": asked.rounds,
        "rows": [_row(case, name, found) for case in cases for name in found[case]],
    }
    print(_table(result))
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")
    if asked.plot:
        _plot(result, asked.plot)
        asked.plot.with_suffix(".md").write_text(_table(result))
    return 0


def _beds() -> tuple[tuple[str, Any], ...]:
    return (
        ("plain routing", nothing),
        ("plain routing again", nothing),
        ("this project", ours(1)),
        ("this project, --bypass tcp", ours(1, bypass="tcp")),
    )


def _operation(
    folder: Path, bed: Bed, way: str, size: int | str, warm: int, cgroup: Path | None
) -> float:
    """Nanoseconds of CPU for one operation; of a stream, for 64 KiB."""
    cpu = max(os.sched_getaffinity(0))

    def join() -> None:
        if cgroup:
            (cgroup / "cgroup.procs").write_text("0")

    if isinstance(size, str):
        return request_ns(folder, bed, size, warm, cpu, ksoftirqd(cpu), join)
    n = {"request": REQUESTS, "connect": CONNECTIONS}.get(way) or min(
        2000, max(30, STREAMED * size >> 20)
    )
    words = (way, bed.client, bed.server, bed.asked[4], bed.port, n, cpu, ksoftirqd(cpu), size)
    done = subprocess.run(
        [str(folder / "pingpong"), *map(str, words), str(0 if way == "connect" else warm)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=join,
    )
    if done.returncode:
        raise SystemExit(f"{bed.name}, {way} {size}: {done.stderr.strip()}")
    return float(done.stdout.split()[0])


@contextmanager
def _cgroup() -> Iterator[Path]:
    """A new one, for processes that end before it."""
    made = Path(tempfile.mkdtemp(prefix="pc-bench-", dir=CGROUPS))
    try:
        yield made
    finally:
        made.rmdir()


@contextmanager
def _other(folder: Path) -> Iterator[Path]:
    """A cgroup with another bypass: what runs in it is bypassed."""
    with ExitStack() as held:
        pins = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="pc-bpf-")))
        _run("mount", "-t", "bpf", "bpf", pins)
        held.callback(_run, "umount", pins)
        cgroup = held.enter_context(_cgroup())
        for name in OTHERS_MAPS:
            held.callback((DEFAULT_PINS / name).unlink, missing_ok=True)
        for name in ("sockops", "redir"):
            _run("bpftool", "prog", "loadall", folder / f"{name}.o", pins / name)
        (hook,), (redirect,) = (list((pins / name).iterdir()) for name in ("sockops", "redir"))
        _run("bpftool", "prog", "attach", "pinned", redirect, "msg_verdict", "pinned",
             DEFAULT_PINS / "map_redir")  # fmt: skip
        _run("bpftool", "cgroup", "attach", cgroup, "sock_ops", "pinned", hook)
        held.callback(_run, "bpftool", "cgroup", "detach", cgroup, "sock_ops", "pinned", hook)
        yield cgroup


def _run(*words: object) -> None:
    subprocess.run([*map(str, words)], check=True, stdout=subprocess.DEVNULL)


def _row(case: Case, name: str, found: Found) -> dict[str, Any]:
    plain, own = next(iter(found[case].values())), found[case][name]
    ratios = [mine / theirs for mine, theirs in zip(own, plain, strict=True)]
    low, middle, high = quartiles(ratios)
    return {"way": case[0], "size": case[1], "bed": name, "ratio": middle, "low": low,
            "high": high, "cpu_ns": sorted(own)[len(own) // 2]}  # fmt: skip


def _table(result: dict[str, Any]) -> str:
    """Markdown: for each way a row for each size, and a column for each bed but plain routing."""
    machine_, rows = result["machine"], result["rows"]
    beds = list(dict.fromkeys(row["bed"] for row in rows))[1:]
    lines = [
        "<!-- written by tests/bench/sockets.py -->",
        f"Linux {machine_['kernel']}, {machine_['cpu']}; IPv4. CPU time of an operation over that of",
        f"plain routing, medians of {result['rounds']} rounds [quartiles].",
    ]
    for way, title in WAYS.items():
        of = {(row["bed"], row["size"]): row for row in rows if row["way"] == way}
        head = f"| | {' | '.join(beds)} |", "|---" * (1 + len(beds)) + "|"
        lines += ["", f"{title[0].upper()}{title[1:]}:", "", *head]
        for size in dict.fromkeys(size for _, size in of):
            cells = (of[name, size] for name in beds)
            shown = (f"{one['ratio']:.2f} [{one['low']:.2f}, {one['high']:.2f}]" for one in cells)
            lines.append(f"| {_title(size)} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def _title(size: int | str) -> str:
    return PROGRAMS[size].title if isinstance(size, str) else str(size)


def _plot(result: dict[str, Any], prefix: Path) -> None:
    """A panel for requests and one for streams: the ratio over the size, a line for each bed."""
    pyplot.switch_backend("Agg")
    rcParams["svg.fonttype"] = "none"
    rcParams["svg.hashsalt"] = "policyc"  # the same result gives the same file
    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4), sharey=True)
    for panel, way in zip(panels, ("request", "stream"), strict=True):
        rows = [row for row in result["rows"] if row["way"] == way]
        for name, colour in zip(dict.fromkeys(row["bed"] for row in rows), COLOURS, strict=False):
            own = [row for row in rows if row["bed"] == name]
            sizes = [row["size"] for row in own]
            panel.plot(sizes, [row["ratio"] for row in own], marker="o", color=colour, label=name)
        panel.set_xscale("log", base=2)
        panel.set_xlabel(WAYS[way])
    panels[0].set_ylabel("CPU time over plain routing")
    panels[0].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(prefix.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
