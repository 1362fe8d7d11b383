# SPDX-License-Identifier: Apache-2.0
"""The front end's entry point for intents: sources in, intents out, or every finding at once."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.cluster.services import Service
from policyc.compiler.frontend.extended import codes_intents
from policyc.compiler.frontend.extended.intents import (
    IntentText,
    check_names,
    read_intent,
    read_intent_text,
)
from policyc.compiler.frontend.extended.rule_passage import Passage
from policyc.compiler.frontend.kubernetes.objects import ObjectReader
from policyc.compiler.frontend.lowered import Reading, Surroundings
from policyc.compiler.frontend.object_kinds import INTENT
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.embedded_text import FileText
from policyc.compiler.frontend.yaml.sources import (
    INTENT_SUFFIX,
    SUFFIXES,
    Content,
    InputFile,
    ObjectsSource,
    PathSource,
    Source,
    StreamSource,
    contents,
    path_name,
)
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.errors import InputError
from policyc.ir.intents import Intent
from policyc.ir.spans import Span

DEFAULTS = ReadOptions()
_YAML = re.compile(rb"^(apiVersion|kind)[ \t]*:|\A\s*\{", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class IntentInput:
    """The result of `read_intents`: the intents in the order of their files, and warnings."""

    intents: tuple[Intent, ...]
    inputs: tuple[InputFile, ...] = ()
    findings: tuple[Diagnostic, ...] = ()


def read_intents(
    sources: Sequence[Source],
    options: ReadOptions = DEFAULTS,
    services: Iterable[Service] = (),
    given: Iterable[IntentText] = (),
) -> IntentInput:
    """Intents of `.intent` files, of YAML, and those that `read_policies` found.

    Other objects of the YAML are left to other readers. Raises InputError with every finding if one of
    them is an error; input without any intent is one.
    """
    options.check()
    report = Report()
    inputs: list[InputFile] = []
    texts = list(given)
    for source in sources:
        before = len(texts)
        texts += _texts(source, options, report, inputs)
        if not any(text.drafts for text in texts[before:]) and not report.errors:
            name = path_name(source.path) if isinstance(source, PathSource) else source.name
            report.add(codes_intents.NO_INTENTS.at(Span(name, 0, 0), name=name))
    by_name = {(s.metadata.namespace, s.metadata.name): s for s in services}
    surroundings = Surroundings(report, by_name)
    passages = [text.passage for text in texts for _ in text.drafts]
    found = [intent for text in texts for intent in text.finished(surroundings)]
    check_names(found, passages)
    if report.errors:
        raise InputError(report.sorted())
    return IntentInput(tuple(found), tuple(inputs), tuple(report.sorted()))


def _texts(
    source: Source, options: ReadOptions, report: Report, inputs: list[InputFile]
) -> Iterator[IntentText]:
    if isinstance(source, ObjectsSource):
        yield from _of_objects(source, options, report)
        return
    for content in contents([source], report, (*SUFFIXES, INTENT_SUFFIX), options.selection):
        inputs.append(content.input_file)
        if is_yaml(content):
            stream = StreamSource(io.BytesIO(content.data), content.name)
            yield from _of_objects(stream, options, report)
        else:
            text = _text_of(content, report)
            if text is not None:
                yield read_intent_text(Passage(FileText(text, content.name), "intents", report))


def is_yaml(content: Content) -> bool:
    """Whether an input is YAML, by its file name; without a known ending, by its content."""
    if content.name.endswith(INTENT_SUFFIX):
        return False
    return content.name.endswith(SUFFIXES) or _YAML.search(content.data) is not None


def _text_of(content: Content, report: Report) -> str | None:
    try:
        return content.data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        byte = f"0x{bad.object[bad.start]:02x}"
        line = bad.object.count(b"\n", 0, bad.start) + 1
        report.add(codes.NOT_UTF8.at(Span(content.name, line, 0), byte=byte))
        return None


def _of_objects(source: Source, options: ReadOptions, report: Report) -> Iterator[IntentText]:
    how = Reading(report, options.default_namespace, options.server)
    reader = ObjectReader(report, options.allow_unknown_kinds)
    for raw in reader.read([source]):
        if (raw.api_version, raw.kind) != INTENT:
            continue
        pending = read_intent(raw, how)
        if pending is not None:
            yield from pending.found.intents
