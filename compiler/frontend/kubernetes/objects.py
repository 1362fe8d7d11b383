# SPDX-License-Identifier: Apache-2.0
"""Documents -> Kubernetes objects: lists are unpacked, each object gets its kind and role.

An object that is neither a policy, nor a cluster object, nor of another known kind is an error here, and
so does not reach the rest of the front end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from fnmatch import fnmatchcase

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.object_kinds import (
    ROLES,
    NotYet,
    Role,
    Unknown,
    classify,
)
from policyc.compiler.frontend.yaml.codes_found import CREATORS
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.found_files import Skipped, say_passed_over, skipped
from policyc.compiler.frontend.yaml.selection import ALL_FILES, Selection
from policyc.compiler.frontend.yaml.sources import (
    INTENT_SUFFIX,
    InputFile,
    ObjectsSource,
    Source,
    contents,
)
from policyc.compiler.frontend.yaml.tree import (
    MAX_DEPTH,
    Mapping,
    Node,
    Scalar,
    Sequence,
    from_python,
)
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

_LIST_FIELDS = frozenset({"apiVersion", "kind", "metadata", "items"})
_INTENTS = (
    "a .intent file has intents, no policies: `policyc verify --intents FILE` decides them; "
    "beside policies they stand in `spec.intents` of an Intent object"
)
_KINDS = {kind for _, kind in ROLES}


@dataclass(frozen=True, slots=True)
class RawObject:
    """An object whose kind is known and whose fields are not read yet."""

    api_version: str
    kind: str
    role: Role
    node: Mapping


@dataclass
class ObjectReader:
    """Reads sources into objects; keeps the objects read and the objects skipped."""

    report: Report
    allow_unknown_kinds: frozenset[str] = frozenset()
    selection: Selection = ALL_FILES
    inputs: list[InputFile] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    _creators: dict[str, Span] = field(default_factory=dict)
    _n_creators: Counter[str] = field(default_factory=Counter)
    _unknown_kinds: dict[tuple[str, str], list[Mapping]] = field(default_factory=dict)

    def read(self, sources: Iterable[Source]) -> Iterator[RawObject]:
        """Every policy and cluster object of the sources, in order."""
        for source in sources:
            if isinstance(source, ObjectsSource):
                yield from self._in_memory(source)
        over: list[Skipped] = []
        files = [source for source in sources if not isinstance(source, ObjectsSource)]
        for content in contents(files, self.report, selection=self.selection):
            found = skipped(content.name, content.data) if content.is_found else None
            if found is not None:
                over.append(found)
                continue
            self.inputs.append(content.input_file)
            if content.name.endswith(INTENT_SUFFIX):
                finding = codes.NOT_AN_OBJECT.at(Span(content.name, 1, 1), found="intents")
                self.report.add(finding.help(_INTENTS))
                continue
            is_empty = True
            for document in read_documents(content.data, content.name, self.report):
                if not document.is_null:
                    is_empty = False
                    yield from self._objects(document, "", "")
            if is_empty and not self.report.errors:
                self.report.add(codes.NO_DOCUMENTS.at(Span(content.name, 0, 0), name=content.name))
        say_passed_over(over, self.report)
        self._say_creators()
        self._say_unknown()

    def _in_memory(self, source: ObjectsSource) -> Iterator[RawObject]:
        """Findings have no line there, so their paths name the object."""
        for index, value in enumerate(source.objects):
            before = len(self.report.findings)
            try:
                node = from_python(value, source.name)
            except RecursionError:
                self.report.add(codes.TOO_DEEP.at(Span(source.name, 0, 0), limit=MAX_DEPTH))
                continue
            yield from self._objects(node, "", "")
            self._name_object(before, f"objects[{index}]")

    def _name_object(self, before: int, name: str) -> None:
        findings = self.report.findings
        for at in range(before, len(findings)):
            path = findings[at].path
            findings[at] = replace(findings[at], path=f"{name}.{path}" if path else name)

    def _objects(self, node: Node, api_version: str, kind: str) -> Iterator[RawObject]:
        """The object, or the items of a list; these inherit the list's apiVersion and kind."""
        if not isinstance(node, Mapping):
            self.report.add(codes.NOT_AN_OBJECT.at(node.span, found=node.describe()))
            return
        api_version = self._type_field(node, "apiVersion", api_version)
        kind = self._type_field(node, "kind", kind)
        if not api_version or not kind:
            return
        if is_list(api_version, kind):
            yield from self._items(node, api_version, kind)
            return
        match classify(api_version, kind):
            case Role.PASSED_OVER:
                self.passed_over[kind] += 1
            case Role.CREATES:
                self.passed_over[kind] += 1
                self._creators.setdefault(kind, node.span)
                self._n_creators[kind] += 1
            case Role() as role:
                yield RawObject(api_version, kind, role, node)
            case NotYet(owner):
                finding = codes.NOT_SUPPORTED.at(
                    node.span_of("kind"), "kind", kind=kind, api_version=api_version, owner=owner
                )
                self.report.add(finding.help("leave it out, or translate it by hand"))
            case Unknown() as unknown:
                self._unknown(node, api_version, kind, unknown)

    def _items(self, node: Mapping, api_version: str, kind: str) -> Iterator[RawObject]:
        items = node.get("items")
        self._check_list(node, kind, items)
        if items is None:
            return
        if not isinstance(items, Sequence):
            finding = codes.WRONG_TYPE.at(
                items.span, "items", where="items", expected="a list", found=items.describe()
            )
            self.report.add(finding)
            return
        is_plain = kind == "List"
        for item in items.items:
            yield from self._objects(
                item, "" if is_plain else api_version, "" if is_plain else kind.removesuffix("List")
            )

    def _check_list(self, node: Mapping, kind: str, items: Node | None) -> None:
        """A list whose `items` is misspelt or missing would silently drop every object in it."""
        before = len(self.report.findings)
        Decoder(self.report).mapping(node, "", _LIST_FIELDS)
        if items is None and len(self.report.findings) == before:
            finding = codes.LIST_WITHOUT_ITEMS.at(node.span_of("items"), "items", kind=kind)
            self.report.add(finding.help("if it is meant to be empty, write `items: []`"))

    def _type_field(self, node: Mapping, name: str, default: str) -> str:
        """`apiVersion` or `kind`; empty if it is missing or not a string, which is reported."""
        value = node.get(name)
        if value is None:
            if not default:
                finding = codes.NO_TYPE.at(node.span, name, field=name)
                self.report.add(finding.help("a NetworkPolicy is of networking.k8s.io/v1"))
            return default
        if isinstance(value, Scalar) and isinstance(value.value, str) and value.value:
            return value.value
        finding = codes.WRONG_TYPE.at(
            value.span, name, where=name, expected="a string", found=value.describe()
        )
        self.report.add(finding)
        return ""

    def _unknown(self, node: Mapping, api_version: str, kind: str, unknown: Unknown) -> None:
        """A kind in no table: an error, unless it is harmless and was allowed."""
        if unknown.is_policy:
            self.report.add(_unknown_finding(node, api_version, kind, unknown))
        elif is_allowed(api_version, kind, self.allow_unknown_kinds):
            self.passed_over[kind] += 1
        else:
            self._unknown_kinds.setdefault((api_version, kind), []).append(node)

    def _say_unknown(self) -> None:
        """One finding for each unknown kind, at its first object."""
        for (api_version, kind), nodes in self._unknown_kinds.items():
            unknown = classify(api_version, kind)
            assert isinstance(unknown, Unknown)
            count = f" ({len(nodes)} objects)" if len(nodes) > 1 else ""
            self.report.add(_unknown_finding(nodes[0], api_version, kind, unknown, count))
        self._unknown_kinds.clear()

    def _say_creators(self) -> None:
        """One finding for the objects whose controllers make others."""
        if self._creators:
            objects = ", ".join(f"{n} {kind}" for kind, n in sorted(self._n_creators.items()))
            finding = CREATORS.at(next(iter(self._creators.values())), objects=objects)
            self.report.add(finding.help("give the rendered objects, too"))
            self._creators.clear()
            self._n_creators.clear()


def is_allowed(api_version: str, kind: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern of --allow-unknown-kinds names a kind.

    A pattern is a kind, a group, or `KIND.GROUP`, and may have `*`, `?` and `[...]`.
    """
    group = api_version.rpartition("/")[0]
    names = (kind, group, f"{kind}.{group}")
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def is_list(api_version: str, kind: str) -> bool:
    """Whether an object is a list of others: `List`, or `<Kind>List` of a known kind."""
    if kind == "List":
        return api_version == "v1"
    if not kind.endswith("List"):
        return False
    return (api_version, kind.removesuffix("List")) in ROLES


def _unknown_finding(
    node: Mapping, api_version: str, kind: str, unknown: Unknown, count: str = ""
) -> Diagnostic:
    if kind in _KINDS and unknown.is_policy:
        code, at = codes.POLICY_VERSION, "apiVersion"
    elif kind in _KINDS:
        code, at = codes.UNKNOWN_VERSION, "apiVersion"
    elif unknown.is_policy and "did you mean" in unknown.hint:
        code, at = codes.MISSPELT_KIND, "kind"
    elif unknown.is_policy:
        code, at = codes.UNKNOWN_POLICY_KIND, "kind"
    else:
        code, at = codes.UNKNOWN_KIND, "kind"
    hint = unknown.hint
    if not unknown.is_policy and not hint:
        group = api_version.rpartition("/")[0]
        name = f"{kind}.{group}" if group else kind
        hint = (
            f"if it cannot restrict traffic, allow it: --allow-unknown-kinds {name}, or "
            "`allowUnknownKinds` in .policyc.yaml"
        )
    values = {"api_version": api_version, "kind": kind, "count": count}
    return code.at(node.span_of(at), at, **values).help(hint)
