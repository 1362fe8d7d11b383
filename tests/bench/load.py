# SPDX-License-Identifier: Apache-2.0
"""CPU time of `policyc node load` for a small change: `PYTHONPATH=. python tests/bench/load.py`.

A node of 100 pods has a policy in force, and the load changes the port of one rule. The command runs as
a user runs it, a process a load, in a network namespace and on a BPF file system of its own. User and
system time of the process, so the kernel's verifier counts. Python keeps its bytecode, as where policyc
is installed. `--profile` shows where a load spends its time. Needs root, clang, and a quiet machine.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.kernel_corpus.surroundings import own_bpffs, own_network

PODS = 100
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: web, namespace: shop}}
spec:
  podSelector: {{matchLabels: {{app: web}}}}
  policyTypes: [Ingress]
  ingress:
  - from:
    - podSelector: {{matchLabels: {{app: client}}}}
    ports: [{{port: {port}}}]
"""
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
COMMAND = [sys.executable, "-m", "policyc.compiler.cli"]


def endpoints() -> list[dict[str, object]]:
    """Half of them serve, half are clients; each has a veth."""
    found: list[dict[str, object]] = []
    for n in range(PODS):
        subprocess.run(["ip", "link", "add", f"v{n}", "type", "veth", "peer", f"p{n}"], check=True)
        found.append(
            {
                "namespace": "shop",
                "name": f"pod-{n}",
                "labels": {"app": "web" if n % 2 else "client"},
                "namespaceLabels": {"kubernetes.io/metadata.name": "shop"},
                "ports": [],
                "addresses": [f"10.1.0.{n + 1}", f"fd00::{n + 1:x}"],
                "interface": f"v{n}",
                "mac": f"02:00:00:00:00:{n:02x}",
                "serviceAccount": "default",
                "serviceAccountLabels": {},
                "node": "node-1",
                "hostNetwork": False,
            }
        )
    return found


def cpu_of(command: list[str]) -> tuple[float, float]:
    """User and system seconds of a command that succeeds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def main(arguments: list[str]) -> None:
    """Load one policy and the other in turns, and print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true", help="where a load spends its time")
    given = parser.parse_args(arguments)
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="bench-load")))
        held.enter_context(own_network())
        bpffs = held.enter_context(own_bpffs(folder / "bpf"))
        for port in (80, 81):
            (folder / f"{port}.yaml").write_text(POLICY.format(port=port))
            made = ["compile", "-f", str(folder / f"{port}.yaml"), "-o", str(folder / str(port))]
            subprocess.run([*COMMAND, *made], check=True, capture_output=True)
        file = folder / "endpoints.json"
        listed = {"schema": "policyc.dev/endpoints/v1", "node": "node-1", "endpoints": endpoints()}
        file.write_text(json.dumps(listed))
        state = ["--endpoints", str(file), "--bpffs", str(bpffs)]

        def load(port: int) -> list[str]:
            return ["node", "load", str(folder / str(port)), *state]

        cpu_of([*COMMAND, *load(80)])
        found = [cpu_of([*COMMAND, *load((81, 80)[n % 2])]) for n in range(given.rounds)]
        user, system = (statistics.median(each) for each in zip(*found, strict=True))
        both = statistics.median(map(sum, found))
        print(
            f"{PODS} pods, {given.rounds} loads: {both:.3f} s ({user:.3f} user, {system:.3f} system)"
        )
        print(f"least {min(map(sum, found)):.3f} s, most {max(map(sum, found)):.3f} s")
        if given.profile:
            profiled = [sys.executable, "-m", "cProfile", "-s", "tottime", "-m", COMMAND[2]]
            done = subprocess.run([*profiled, *load(81)], capture_output=True, text=True)
            print(os.linesep.join(done.stdout.splitlines()[:60]))
        subprocess.run([*COMMAND, "node", "unload", "--bpffs", str(bpffs)], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
