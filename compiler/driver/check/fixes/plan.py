# SPDX-License-Identifier: Apache-2.0
"""The edits of every file for some fixes, and the fixes that its text does not allow."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from policyc.compiler.driver.check.findings import place_of
from policyc.compiler.driver.check.fixes.comments import comment_on, unused_code, without_codes
from policyc.compiler.driver.check.fixes.documents import is_emptied, without_documents
from policyc.compiler.driver.check.fixes.edits import Edit, NotEditableError, applied
from policyc.compiler.driver.check.fixes.file_text import FileText, RulePart, file_text, start_of
from policyc.compiler.driver.check.fixes.found import Fixable
from policyc.compiler.driver.check.fixes.kustomizations import refuse_listed
from policyc.compiler.driver.check.fixes.lists import without_items
from policyc.compiler.driver.check.fixes.policy_types import with_policy_types
from policyc.compiler.frontend.yaml.sources import Content
from policyc.ir.policy import Policy, PolicySet
from policyc.ir.results.common import Finding, Place
from policyc.ir.results.places import place_of_policy
from policyc.ir.spans import Span
from policyc.verifier.cluster.reads import policies_of
from policyc.verifier.cluster.rows import RuleId
from policyc.verifier.redundancy.accidents import all_rules


@dataclass(frozen=True, slots=True)
class FixedFile:
    """A file with fixes: its new bytes, None if the file is deleted."""

    content: Content
    new: bytes | None
    n_fixes: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A finding that the text does not allow to fix, and the reason."""

    place: Place
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The edited files, and what is left out."""

    files: tuple[FixedFile, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def n_fixes(self) -> int:
        """The number of findings that the edits fix."""
        return sum(each.n_fixes for each in self.files)

    def contents(self, given: Iterable[Content]) -> tuple[Content, ...]:
        """The contents after the edits."""
        new = {each.content.name: each.new for each in self.files}
        edited = ((each, new.get(each.name, each.data)) for each in given)
        return tuple(replace(each, data=data) for each, data in edited if data is not None)


def plan(fixes: Fixable, policies: PolicySet, given: Iterable[Content]) -> Plan:
    """The edits for some fixes."""
    contents = {each.name: each for each in given}
    counts = _Counts(
        Counter(each.origin.span for each in policies_of((policies,))),
        Counter(map(_item_of, all_rules(policies))),
    )
    files: list[FixedFile] = []
    left_out: list[LeftOut] = []
    for name in sorted({span.file for span in fixes.spans}):
        part = _in_file(fixes, name)
        try:
            if name not in contents:
                raise NotEditableError("a bundle cannot be edited")
            planned = _FilePlan(file_text(contents[name]), part, counts)
            fixed = planned.fixed()
        except NotEditableError as failure:
            left_out += (LeftOut(place, str(failure)) for place in part.places())
            continue
        left_out += planned.left_out
        files += [fixed] if fixed.n_fixes else []
    return Plan(tuple(files), tuple(left_out))


def _in_file(fixes: Fixable, name: str) -> Fixable:
    return Fixable(
        tuple(each for each in fixes.rules if each.rule.origin.span.file == name),
        tuple(each for each in fixes.policies if each.origin.span.file == name),
        tuple(each for each in fixes.comments if each.place.span.file == name),
    )


def _item_of(rule: RuleId) -> tuple[Span, str]:
    """The item of the text that a rule is from; an item may give several rules."""
    origin = rule.rule.origin
    return origin.span, origin.path


@dataclass(frozen=True, slots=True)
class _Counts:
    """The number of policies that an object gives, and of rules that an item gives."""

    policies: Mapping[Span, int]
    rules: Mapping[tuple[Span, str], int]


@dataclass
class _FilePlan:
    file: FileText
    fixes: Fixable
    counts: _Counts
    left_out: list[LeftOut] = field(default_factory=list)
    n_fixes: int = 0

    def fixed(self) -> FixedFile:
        """The file with all fixes that its text allows. Raises NotEditableError."""
        gone = self._documents()
        if is_emptied(self.file.documents, gone):
            return FixedFile(self.file.content, None, self.n_fixes + len(self.fixes.comments))
        edits = list(without_documents(self.file.text, self.file.documents, gone)) if gone else []
        edits += self._rules()
        edits += self._comments()
        new = self.file.mark + applied(self.file.text, edits)
        return FixedFile(self.file.content, new.encode(), self.n_fixes)

    def _documents(self) -> set[int]:
        """The documents whose policies may all be deleted."""
        chosen = Counter(each.origin.span for each in self.fixes.policies)
        gone = set()
        for each in self.fixes.policies:
            span = each.origin.span
            try:
                at = self.file.document_of(start_of(span))
                if chosen[span] < self.counts.policies[span]:
                    raise NotEditableError("its object has parts that are needed")
            except NotEditableError as failure:
                self._leave(place_of_policy(each), failure)
            else:
                gone.add(at)
                self.n_fixes += 1
        self._refuse_deletion(gone)
        return gone

    def _refuse_deletion(self, gone: set[int]) -> None:
        if gone and is_emptied(self.file.documents, gone):
            refuse_listed(self.file.content.path)

    def _rules(self) -> Iterator[Edit]:
        """The edits of every list that loses rules."""
        lists: defaultdict[Span, list[tuple[RulePart, Policy, list[RuleId]]]] = defaultdict(list)
        for rules in self._items():
            rule = rules[0]
            spans = start_of(rule.policy.origin.span), start_of(rule.rule.origin.span)
            try:
                part = self.file.rule(*spans, rule.rule.origin.path)
            except NotEditableError as failure:
                self._leave_all(rules, failure)
            else:
                marks = part.items.marks
                span = Span(self.file.content.name, marks.line, marks.column)
                lists[span].append((part, rule.policy, rules))
        for found in lists.values():
            yield from self._of_list(found)

    def _items(self) -> Iterator[list[RuleId]]:
        """The rules of each item of the text, if all of them may go."""
        gone: defaultdict[tuple[Span, str], list[RuleId]] = defaultdict(list)
        for each in self.fixes.rules:
            gone[_item_of(each)].append(each)
        for item, rules in gone.items():
            if len(rules) == self.counts.rules[item]:
                yield rules
            else:
                self._leave_all(rules, NotEditableError("its item has parts that are needed"))

    def _of_list(self, found: list[tuple[RulePart, Policy, list[RuleId]]]) -> Iterator[Edit]:
        part, policy, _ = found[0]
        text = self.file.text
        edits: list[Edit] = []
        if len(found) == len(part.items.items):
            try:
                types = with_policy_types(text, part, policy)
                edits += [] if types is None else [types]
            except NotEditableError as failure:
                self._leave_all(found[0][2], failure)
                found = found[1:]
        gone = {each.index for each, _, _ in found}
        try:
            edits += without_items(text, part.key, part.items, gone) if gone else ()
        except NotEditableError as failure:
            for _, _, rules in found:
                self._leave_all(rules, failure)
            return
        self.n_fixes += sum(len(rules) for _, _, rules in found)
        yield from edits

    def _comments(self) -> Iterator[Edit]:
        """The edits of comments, each once for all of its codes."""
        by_line: defaultdict[int, list[Finding]] = defaultdict(list)
        for each in self.fixes.comments:
            by_line[each.place.span.line].append(each)
        for line, findings in by_line.items():
            try:
                comment = comment_on(self.file.text, line)
                if self.file.is_in_scalar(comment.start()):
                    raise NotEditableError("it is in a value, and not a comment")
            except NotEditableError as failure:
                self._leave(findings[0].place, failure)
            else:
                self.n_fixes += len(findings)
                yield without_codes(self.file.text, comment, set(map(unused_code, findings)))

    def _leave_all(self, rules: Iterable[RuleId], failure: NotEditableError) -> None:
        for each in rules:
            self._leave(place_of(each), failure)

    def _leave(self, place: Place, failure: NotEditableError) -> None:
        self.left_out.append(LeftOut(place, str(failure)))
