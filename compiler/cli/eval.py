# SPDX-License-Identifier: Apache-2.0
"""`policyc eval`: the verdicts of the reference semantics on given flows. Glue only."""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import click

from policyc.backends.report.text import print_findings
from policyc.compiler.cli.eval_batches import AUTO, ENGINES, NATIVE, FlowFile, batch_of
from policyc.compiler.cli.help import command
from policyc.compiler.cli.inputs import read_options, show_findings, show_profile, show_staged
from policyc.compiler.cli.json_findings import findings_as_json
from policyc.compiler.cli.rendered_options import NO_FILES, helm_values_option, rendered_options
from policyc.compiler.cli.stderr_notes import say
from policyc.compiler.driver.eval.answers import (
    answer,
    to_text,
)
from policyc.compiler.driver.eval.native_flows import require_native
from policyc.compiler.frontend import (
    ReadOptions,
    codes,
    read_policies,
    read_scenario,
)
from policyc.compiler.frontend.flows.files import (
    flow_from_arguments,
    flow_from_record,
    flows_from_text,
    without_duplicates,
)
from policyc.compiler.frontend.flows.reading import (
    FlowRequest,
    UniverseIndex,
)
from policyc.compiler.frontend.named_sources import shared_sources
from policyc.compiler.frontend.read import ClusterReading
from policyc.compiler.frontend.yaml.sources import (
    STDIN_NAME,
    PathSource,
    StreamSource,
    is_stdin_repeated,
    path_name,
    read_whole,
)
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.errors import InputError
from policyc.ir.policy import PolicySet
from policyc.ir.printable import json_text
from policyc.ir.spans import Span
from policyc.ir.universe import Universe

_SCENARIO_FIELDS = {"id", "objects", "flows"}


@command(
    "eval",
    short_help="evaluate flows with the reference semantics",
    examples=(
        "policyc eval -f policies --cluster cluster shop/web 10.0.0.1 tcp/443",
        "policyc eval -f policies --cluster cluster --flows flows.csv --format json",
    ),
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="POLICIES",
    help="Read policies from a file, a directory, - (standard input), kustomize:DIR or helm:CHART. "
    "Repeatable.",
)
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="DIR",
    help="Read namespaces, pods, workloads, Services and nodes. Repeatable.",
)
@rendered_options
@read_options
@helm_values_option
@click.option(
    "--flows",
    metavar="FILE",
    help="Read flows from CSV with a header, or from JSON lines; - is standard input.",
)
@click.option(
    "--scenarios",
    metavar="FILE",
    help="Read JSON lines of {id, objects, flows}; - is standard input.",
)
@click.option(
    "--source-port", type=int, metavar="PORT", help="Set the source port of the flow SRC DST."
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default=AUTO,
    help="Evaluate --flows with the reference semantics, with compiled code (native), or with "
    "compiled code for large files only (auto). [default: auto]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Print the result as text or JSON.",
)
@click.argument("flow", nargs=-1, metavar="[SRC DST PROTOCOL[/PORT]]")
def eval_(
    files: tuple[str, ...],
    clusters: tuple[str, ...],
    options: ReadOptions,
    flows: str | None,
    scenarios: str | None,
    source_port: int | None,
    engine: str,
    form: str,
    flow: tuple[str, ...],
) -> int:
    """Print the verdict on each flow and the rule that decides it.

    SRC and DST are namespace/pod, node/NAME or an address; PROTOCOL[/PORT] is tcp/443, icmp/8/0, 47.
    """
    if sum((bool(flow), flows is not None, scenarios is not None)) != 1:
        raise click.UsageError("give one of: SRC DST PROTOCOL[/PORT], --flows, --scenarios")
    if scenarios is not None:
        if files or clusters:
            raise click.UsageError("--scenarios has its own objects: remove -f and --cluster")
        return _run_scenarios(scenarios, options)
    if flow and len(flow) != 3:
        raise click.UsageError("a flow is SRC DST PROTOCOL[/PORT]")
    if source_port is not None and not flow:
        raise click.UsageError(
            "--source-port is only for SRC DST PROTOCOL[/PORT]; flow files have the field source_port"
        )
    if engine != AUTO and flows is None:
        raise click.UsageError("--engine needs --flows")
    if engine == NATIVE:
        require_native()
    if not files:
        raise click.UsageError(NO_FILES)
    if is_stdin_repeated(files, clusters) or (flows == "-" and "-" in (*files, *clusters)):
        raise click.UsageError("standard input (-) can be read only once")
    with findings_as_json(form == "json"):
        policies, universe = read_all(files, clusters, options)
        asked = _Asked(flow, source_port, flows, engine)
        return _run_flows(policies, universe, asked, form)


@dataclass(frozen=True)
class _Asked:
    """The flows of one run: three arguments, or a file."""

    arguments: tuple[str, ...]
    source_port: int | None
    file: str | None
    engine: str


def read_all(
    files: tuple[str, ...], clusters: tuple[str, ...], options: ReadOptions
) -> tuple[PolicySet, Universe]:
    """Policies and universe; skipped objects are reported on standard error."""
    sources, of_cluster = shared_sources(files, clusters, sys.stdin.buffer, options)
    reading = ClusterReading(of_cluster, options)
    given = read_policies(sources, options, reading.services, reading.known)
    cluster = reading.finish(given.policies, given.found)
    show_findings([*given.findings, *cluster.findings])
    show_profile(given.profile)
    show_staged(given)
    _count("skipped", given.passed_over + cluster.passed_over)
    if not clusters:
        _count("ignored without --cluster", given.cluster_objects)
    return given.policies, cluster.universe


def _count(what: str, kinds: Counter[str]) -> None:
    if kinds:
        counted = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
        say(f"{what}: {counted}")


def _run_flows(policies: PolicySet, universe: Universe, asked: _Asked, form: str) -> int:
    report = Report()
    index = UniverseIndex(universe)
    text = "" if asked.file is None else _text_of(asked.file)
    batch = None
    if asked.file is not None:
        batch = batch_of(policies, index, FlowFile(text, _shown(asked.file)), asked.engine, report)
    if batch is not None:
        report.findings += batch.print(form == "json")
    else:
        _answer_one_by_one(policies, index, _requests(asked, text, report), report, form)
    if sys.stdout is not None:  # it is None if the shell closed it
        sys.stdout.flush()
    print_findings(report.sorted())
    return 0


def _answer_one_by_one(
    policies: PolicySet,
    index: UniverseIndex,
    requests: Iterable[FlowRequest],
    report: Report,
    form: str,
) -> None:
    """Print the answer to each request; if one is not a flow, InputError before any answer."""
    flows = [(request, index.flow(request, report)) for request in requests]
    if report.errors:
        raise InputError(report.sorted())
    for request, found in flows:
        assert found is not None
        given = answer(policies, found, index.nodes)
        print(json_text(given.to_json()) if form == "json" else to_text(given))
        for finding in given.findings(request.name, request.span):
            report.add(finding)


def _requests(asked: _Asked, text: str, report: Report) -> Iterable[FlowRequest]:
    if asked.file is not None:
        return list(flows_from_text(text, _shown(asked.file), report))
    src, dst, service = asked.arguments
    request = flow_from_arguments(src, dst, service, report, asked.source_port)
    return [] if request is None else [request]


def _shown(file: str) -> str:
    return STDIN_NAME if file == "-" else path_name(file)


def _text_of(path: str) -> str:
    report = Report()
    source = StreamSource(sys.stdin.buffer) if path == "-" else PathSource(path)
    data = read_whole(source, report)
    if data is None:
        raise InputError(report.findings)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        byte = f"0x{bad.object[bad.start]:02x}"
        raise InputError([codes.NOT_UTF8.at(Span(_shown(path), 0, 0), byte=byte)]) from None


def _lines_of(file: str) -> Iterable[str | bytes]:
    """The lines of a file; of standard input as they come, so that `eval` can serve another program."""
    return sys.stdin.buffer if file == "-" else _text_of(file).split("\n")


def _run_scenarios(file: str, options: ReadOptions) -> int:
    """One answer a line, in order; a scenario with mistakes does not stop the others."""
    options.check()  # a bad option is a mistake of the run, not of each scenario
    for number, line in enumerate(_lines_of(file), start=1):
        if line.strip():
            print(
                json_text(_scenario_answer(line, Span(_shown(file), number, 1), options)),
                flush=True,
            )
    return 0


def _scenario_answer(line: str | bytes, span: Span, options: ReadOptions) -> dict[str, object]:
    try:
        scenario = json.loads(line, object_pairs_hook=without_duplicates)
    except (ValueError, RecursionError) as failure:
        return _answer_line(None, [], [_bad_scenario(span, f"not readable: {failure}")])
    if not isinstance(scenario, dict):
        return _answer_line(None, [], [_bad_scenario(span, "expected an object")])
    name = scenario.get("id")
    objects, flows = scenario.get("objects", []), scenario.get("flows", [])
    if "id" not in scenario or not isinstance(objects, list) or not isinstance(flows, list):
        problem = "expected `id`, a list `objects` and a list `flows`"
        return _answer_line(name, [], [_bad_scenario(span, problem)])
    report = Report()
    for field in sorted(scenario.keys() - _SCENARIO_FIELDS):
        report.add(codes.IGNORED_FIELD.at(span, flow="scenario", name=field))
    try:
        policies, cluster = read_scenario(str(name), objects, options)
    except InputError as wrong:
        return _answer_line(name, [], [*report.findings, *wrong.findings])
    index = UniverseIndex(cluster.universe)
    where = Span(f"<scenario {name}>", 0, 0)
    results = [
        _flow_result(record, f"flows[{at}]", where, policies, index, report)
        for at, record in enumerate(flows)
    ]
    return _answer_line(name, results, [*cluster.findings, *report.findings])


def _flow_result(
    record: object,
    name: str,
    span: Span,
    policies: PolicySet,
    index: UniverseIndex,
    report: Report,
) -> dict[str, object] | None:
    """The answer for one flow of a scenario; None if it is not a flow."""
    request = flow_from_record(record, name, span, report)
    flow = None if request is None else index.flow(request, report)
    if flow is None:
        return None
    given = answer(policies, flow, index.nodes)
    for finding in given.findings(name, span):
        report.add(finding)
    return given.to_json()


def _bad_scenario(span: Span, problem: str) -> Diagnostic:
    return codes.BAD_SCENARIO.at(span, problem=problem)


def _answer_line(
    name: object, results: list[dict[str, object] | None], findings: Iterable[Diagnostic]
) -> dict[str, object]:
    return {
        "id": name,
        "results": results,
        "diagnostics": [finding.to_json() for finding in findings],
    }
