# SPDX-License-Identifier: Apache-2.0
"""`policyc lab`: compile, load into a lab of network namespaces, send real traffic, compare."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import get_args

import click
from rich.console import Console

from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import input_options, inputs_of, progress_on_stderr, show_read
from policyc.compiler.driver.compile.compile import (
    Compiled,
    compile_inputs,
)
from policyc.compiler.driver.compile.target import Target, usual_backend
from policyc.compiler.driver.eval.lab import (
    expected_matrix,
    lab_endpoints,
    lab_pods,
    metadata_of,
)
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.counts import counted
from policyc.ir.errors import HostError
from policyc.ir.plan import Counters
from policyc.ir.printable import json_text
from policyc.runtime.kernel.host import require_root
from policyc.runtime.lab.children import LabError
from policyc.runtime.lab.matrix import render, to_json
from policyc.runtime.lab.run import Result, run_lab
from policyc.runtime.lab.topology import EXTERNAL, LabNode
from policyc.runtime.lab.wiring import Pair
from policyc.runtime.load.node import load
from policyc.runtime.load.request import LoadRequest

WHAT_NEXT = """What to try next:
  {policyc} eval {inputs} {flow}
      the verdict on one flow, with the deciding rule and its line
  {policyc} compile {inputs} --emit c
      the eBPF that was just loaded, with the rules in it as comments
  change a policy in {first}, and run this again: the matrix follows, or this exits with 1"""


@command(
    "lab",
    examples=(
        "policyc lab -f policies --cluster cluster",
        "policyc lab -f policies --cluster cluster --format json",
        "policyc lab -f policies --cluster cluster --pair netkit",
    ),
)
@input_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Print the matrix as text or JSON.",
)
@click.option(
    "--pair",
    type=click.Choice(get_args(Pair)),
    default="veth",
    show_default=True,
    help="Connect the pods by such devices. netkit needs Linux 6.7, ipvlan 6.6.",
)
def lab(
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    options: ReadOptions,
    format_: str,
    pair: Pair,
) -> int:
    """Test policies with real traffic: one node, its pods and an external client as network namespaces.

    Send TCP, UDP and ICMP between all pods and from the client, over IPv4 and IPv6. Compare the traffic
    on the wire with the verdicts of the YAML. Exit code 1: they differ. Needs root.
    """
    if not cluster:
        raise click.UsageError("the lab needs --cluster: it builds the pods of the cluster")
    require_root()
    inputs = inputs_of(files, cluster, options)
    progress = progress_on_stderr()
    with tempfile.TemporaryDirectory(prefix="policyc-lab-") as folder:
        bundle = Path(folder) / "bundle"
        target = Target(usual_backend(Counters.BYTES))
        done = compile_inputs(inputs, bundle, progress, target=target)
        show_read(done.read, done.findings)
        progress("building the lab and sending traffic")
        result = _run(done, bundle, Path(folder), pair)
    if format_ == "json":
        click.echo(json_text(to_json(result.comparison, result.seen)))
    else:
        _show(done, result, files, cluster)
    return 0 if result.comparison.agrees else 1


def _run(done: Compiled, bundle: Path, folder: Path, pair: Pair) -> Result:
    universe = done.decided.universe
    pods = lab_pods(universe) if universe else ()
    if not pods:
        raise HostError("the cluster has no pod with an address: nothing to build a lab from")
    expected = expected_matrix(done.decided.policies, pods)
    endpoints = folder / "endpoints.json"

    def load_bundle(node: LabNode) -> None:
        node.write_endpoints(endpoints, metadata_of(pods))
        node.run_in(
            lambda: load(
                LoadRequest(
                    bundle=bundle,
                    endpoints=endpoints,
                    bpffs=node.bpffs,
                    state_root=folder / "state",
                    uplinks=(node.uplink,) if done.has_host_policy or pair == "ipvlan" else (),
                )
            )
        )

    try:
        return run_lab(lab_endpoints(pods), expected, expected, load_bundle, pair=pair)
    except LabError as failure:
        raise HostError(str(failure)) from failure


def _show(done: Compiled, result: Result, files: tuple[str, ...], cluster: tuple[str, ...]) -> None:
    console = Console()
    policies = sum(len(tier.policies) for tier in done.policies.tiers)
    console.print(
        f"compiled and proved {counted(policies, 'policy', 'policies')}"
        f" ({counted(done.proof.obligations, 'obligation')}), loaded on one node;"
        f" traffic took {result.traffic_seconds:.1f} s.",
        highlight=False,
    )
    console.print("Seen on the wire, against what the YAML says:", highlight=False)
    console.print(render(result.comparison))
    inputs = " ".join([*(f"-f {f}" for f in files), *(f"--cluster {c}" for c in cluster)])
    flow = next((p for p, o in result.seen.items() if o.outcome == "denied" and p.port), None)
    shown = f"{flow.source} {flow.destination} {flow.protocol.lower()}/{flow.port}" if flow else ""
    said = WHAT_NEXT.format(
        policyc=_own_name(),
        inputs=inputs,
        flow=shown.replace(EXTERNAL.name, str(EXTERNAL.ipv4)),
        first=files[0],
    )
    console.print(said, highlight=False, markup=False, soft_wrap=True)


def _own_name() -> str:
    """The command line that calls this command again."""
    return "policyc" if shutil.which("policyc") else os.path.relpath(sys.argv[0])
