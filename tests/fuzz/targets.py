# SPDX-License-Identifier: Apache-2.0
"""What must hold of any input of a parser: no error but the documented ones, no hang, no surprise.

A target is a function of bytes that raises where something does not hold. `run.py` feeds it with what
coverage finds, `test_corpus.py` with what is kept.
"""

import io
import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from policyc.compiler.frontend.calico.selector import NestingError
from policyc.compiler.frontend.calico.selector import parse_expression as parse_selector
from policyc.compiler.frontend.calico.tokens import SelectorError
from policyc.compiler.frontend.extended.formatting import (
    format_intent_file,
    format_yaml_file,
)
from policyc.compiler.frontend.read import read_policies
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.sources import StreamSource
from policyc.compiler.frontend.yaml.tree import Node
from policyc.compiler.fuzz.strategies.plain import to_python
from policyc.grammar.layout import lay_out_expression, lay_out_intents, lay_out_rules
from policyc.grammar.parse import Parsed, parse_expression, parse_intents, parse_rules
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InputError
from policyc.runtime.errors import NodeError
from policyc.runtime.kernel.btf import Btf
from policyc.verifier.bytecode.errors import BytecodeError
from policyc.verifier.bytecode.object import read_object
from policyc.verifier.bytecode.program import link_program

Target = Callable[[bytes], None]
EXTENDED = """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: x}
spec:
  tier: 1
  rules: """


def yaml_loader(data: bytes) -> None:
    """Findings, or documents that are the same again once they are written as JSON."""
    documents, is_right = _read(data)
    if not is_right:
        return
    written = "".join(f"--- {json.dumps(to_python(each))}\n" for each in documents)
    again, is_still_right = _read(written.encode())
    assert is_still_right, written
    assert [to_python(each) for each in again] == [to_python(each) for each in documents]


def _read(data: bytes) -> tuple[list[Node], bool]:
    report = Report()
    return list(read_documents(data, "f.yaml", report)), not report.errors


def policies(data: bytes) -> None:
    """The whole front end: policies, or InputError."""
    with suppress(InputError):
        read_policies([StreamSource(io.BytesIO(data))])


def fmt(data: bytes) -> None:
    """Files of YAML, and the same bytes as a field of an ExtendedPolicy and as an .intent file."""
    for whole in (data, EXTENDED.encode() + data):
        _lays_out_once(format_yaml_file, whole)
    _lays_out_once(format_intent_file, data)


def _lays_out_once(form: Callable[[bytes, str, Report], bytes | None], data: bytes) -> None:
    laid_out = form(data, "f", Report())
    if laid_out is not None:
        assert form(laid_out, "f", Report()) == laid_out


def _language(parse: Callable[[str], Parsed], lay_out: Callable[[str], str]) -> Target:
    """Valid input is formatted, parses to the same value, and is stable when formatted again."""

    def target(data: bytes) -> None:
        text = data.decode(errors="replace")
        if parse(text).problems:
            return
        laid_out = lay_out(text)
        assert not parse(laid_out).problems, laid_out
        assert lay_out(laid_out) == laid_out

    return target


def selectors(data: bytes) -> None:
    """Calico's: a condition, or one of two errors."""
    with suppress(SelectorError, NestingError):
        parse_selector(data.decode(errors="replace"))


def objects(data: bytes) -> None:
    """ELF, BTF and code of an object, as the prover and as a node read them."""
    with suppress(BytecodeError):
        source = read_object(data)
        for entry in source.entries:
            with suppress(BytecodeError):
                link_program(source, entry)
    with tempfile.NamedTemporaryFile() as file, suppress(NodeError):
        Path(file.name).write_bytes(data)
        Btf.of_object(Path(file.name)).struct("s")


TARGETS: Mapping[str, Target] = {
    "yaml": yaml_loader,
    "policies": policies,
    "fmt": fmt,
    "rules": _language(parse_rules, lay_out_rules),
    "expressions": _language(parse_expression, lay_out_expression),
    "intents": _language(parse_intents, lay_out_intents),
    "selectors": selectors,
    "objects": objects,
}
