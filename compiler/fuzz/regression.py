# SPDX-License-Identifier: Apache-2.0
"""Regression files: an example with the flows on which a stage differed from the reference.

The format is described in docs/fuzz.md. YAML, so that it can be read and edited. A test replays every
file of tests/regressions.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from policyc.compiler.driver.codes import BAD_REGRESSION
from policyc.compiler.frontend import ReadOptions
from policyc.compiler.frontend.flows.files import flow_from_record
from policyc.compiler.frontend.flows.reading import UniverseIndex
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.lowered import Channel, Profile, Unsupported
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.scalars import resolve
from policyc.compiler.frontend.yaml.sources import (
    PathSource,
    path_name,
    read_whole,
)
from policyc.compiler.frontend.yaml.tree import Mapping
from policyc.compiler.fuzz.comparison import Disagreement
from policyc.compiler.fuzz.stages.scenario import (
    FlowRecord,
    Scenario,
    read_draw,
    with_records,
)
from policyc.compiler.fuzz.strategies.draw import (
    LAYOUTS,
    Draw,
)
from policyc.compiler.fuzz.strategies.plain import to_python
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InputError
from policyc.ir.spans import Span

SCHEMA = "policyc.dev/fuzz-case/v1"
_FIELDS = frozenset({"schema", "title", "found", "layout", "later", "options", "flows", "objects"})
_OPTIONS = frozenset({"namespace", "kube-version", "channel", "profile", "unsupported"})
_LICENSE = "# SPDX-License-Identifier: Apache-2.0\n"
_HEADER = f"{_LICENSE}# `policyc fuzz --replay FILE` asks every stage again.\n"


@dataclass(frozen=True)
class Regression:
    """A file that was read. Without records, the flows are those that the fuzzer would try.

    `spans` are the places of the records.
    """

    file: str
    title: str
    draw: Draw
    records: tuple[FlowRecord, ...]
    spans: tuple[Span, ...]
    options: ReadOptions


def to_text(found: Disagreement, options: ReadOptions) -> str:
    """The file of a disagreement."""
    draw = found.scenario.draw
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "title": found.describe(),
        "found": {
            "stage": found.stage,
            "reference": found.reference,
            "answer": found.answer,
        },
        "layout": draw.layout,
        "later": sorted(draw.later),
        "options": _options_json(options),
        "flows": [dict(record) for record in found.records],
        "objects": list(draw.objects),
    }
    shown = {key: item for key, item in value.items() if item not in ([], {})}
    return _HEADER + yaml.dump(
        shown, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True
    )


def name_of(text: str, found: Disagreement) -> str:
    """The name of the file, which depends only on its content."""
    return f"{found.stage}-{hashlib.sha256(text.encode()).hexdigest()[:10]}.yaml"


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as literal blocks, and no aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A text that our reader reads as text; plain `n` and `y` are booleans to it, too."""
    style = "|" if "\n" in text else None if resolve(text) == text else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def _options_json(options: ReadOptions) -> dict[str, str]:
    usual = ReadOptions()
    given = {
        "namespace": (options.default_namespace, usual.default_namespace),
        "kube-version": (options.kube_version, usual.kube_version),
        "channel": (options.channel.value, usual.channel.value),
        "profile": (options.profile.value if options.profile else "", ""),
        "unsupported": (options.unsupported.value, usual.unsupported.value),
    }
    return {name: value for name, (value, default) in given.items() if value != default}


def read_regression(path: str) -> Regression:
    """The file. InputError with all its mistakes."""
    report = Report()
    data = read_whole(PathSource(path), report)
    documents = [] if data is None else list(read_documents(data, path_name(path), report))
    if report.errors:
        raise InputError(report.sorted())
    if len(documents) != 1:
        problem = f"{len(documents)} documents, expected one"
        raise InputError([BAD_REGRESSION.at(Span(path_name(path), 0, 0), problem=problem)])
    reading = _Reading(report)
    node = reading.decoder.mapping(documents[0], "", _FIELDS)
    found = None if node is None else reading.regression(node)
    if report.errors or found is None:
        raise InputError(report.sorted())
    return found


@dataclass
class _Reading:
    """One file."""

    report: Report

    def __post_init__(self) -> None:
        self.decoder = Decoder(self.report)

    def regression(self, node: Mapping) -> Regression:
        self._among(node, "schema", (SCHEMA,), "")
        objects = tuple(to_python(item) for item, _ in self.decoder.items(node, "objects", ""))
        for item, where in self.decoder.items(node, "objects", ""):
            self.decoder.mapping(item, where)
        if not objects:
            problem = "it has no `objects`"
            self.report.add(BAD_REGRESSION.at(node.span_of("objects"), "objects", problem=problem))
        records = list(self._records(node))
        return Regression(
            node.file,
            self.decoder.string(node, "title", "") or "",
            Draw(
                objects,
                frozenset(self.decoder.strings(node, "later", "")),
                self._among(node, "layout", tuple(LAYOUTS), "measured"),
            ),
            tuple(record for record, _ in records),
            tuple(span for _, span in records),
            self._options(node),
        )

    def _records(self, node: Mapping) -> Iterable[tuple[FlowRecord, Span]]:
        for item, where in self.decoder.items(node, "flows", ""):
            if self.decoder.mapping(item, where) is None:
                continue
            record = to_python(item)
            if flow_from_record(record, where, item.span, self.report) is not None:
                yield record, item.span

    def _options(self, node: Mapping) -> ReadOptions:
        given = self.decoder.object(node, "options", "", _OPTIONS) or Mapping("", 0, 0)
        usual = ReadOptions()
        profiles = tuple(each.value for each in Profile)
        profile = self._among(given, "profile", profiles, "", is_optional=True)
        channels = tuple(each.value for each in Channel)
        ways = tuple(each.value for each in Unsupported)
        return ReadOptions(
            self.decoder.string(given, "namespace", "options", usual.default_namespace)
            or "default",
            self.decoder.string(given, "kube-version", "options", usual.kube_version) or "1.36",
            channel=Channel(self._among(given, "channel", channels, usual.channel.value)),
            profile=Profile(profile) if profile else None,
            unsupported=Unsupported(
                self._among(given, "unsupported", ways, usual.unsupported.value)
            ),
        )

    def _among(
        self,
        node: Mapping,
        name: str,
        known: tuple[str, ...],
        default: str,
        is_optional: bool = False,
    ) -> str:
        """A field with one of some values; without a default it is required, unless it is optional."""
        text = self.decoder.string(node, name, "", default)
        if text is None:  # reported already
            return default or known[0]
        if text in known or (not text and is_optional):
            return text
        problem = f"`{name}` is {text!r}, expected {' or '.join(known)}"
        finding = BAD_REGRESSION.at(node.span_of(name), name, problem=problem)
        self.report.add(finding.help(did_you_mean(text, known)))
        return default or known[0]


def scenario_of(regression: Regression) -> Scenario:
    """The scenario of a file. InputError if the front end, or a flow's end, is wrong."""
    scenario = read_draw(regression.draw, regression.options, regression.file)
    report = Report()
    index = UniverseIndex(scenario.universe)
    for at, (record, span) in enumerate(zip(regression.records, regression.spans, strict=True)):
        request = flow_from_record(record, f"flows[{at}]", span, report)
        if request is not None:
            index.flow(request, report)
    if report.errors:
        raise InputError(report.sorted())
    return with_records(scenario, regression.records)
