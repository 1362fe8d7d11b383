# SPDX-License-Identifier: Apache-2.0
"""Intents as text -> the IR's intents, and policyc.dev/v1alpha1 objects of kind Intent.

An Intent object among policies is read, provided to commands that use intents, and otherwise ignored.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from policyc.compiler.frontend.extended import codes as words
from policyc.compiler.frontend.extended import codes_intents as codes
from policyc.compiler.frontend.extended.policy import (
    own_metadata,
    passage_of,
)
from policyc.compiler.frontend.extended.rule_blocks import (
    once,
    text_of,
)
from policyc.compiler.frontend.extended.rule_passage import Passage
from policyc.compiler.frontend.extended.rule_peers import (
    Draft,
    looked_up,
    peers,
)
from policyc.compiler.frontend.extended.rule_services import services
from policyc.compiler.frontend.found import Found
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import Lowered, Pending, Reading, Surroundings
from policyc.grammar import tree
from policyc.grammar.parse import parse_intents
from policyc.ir.intents import Intent, IntentKind, Scope
from policyc.ir.spans import Origin

_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec"})
_SPEC_FIELDS = frozenset({"intents"})


@dataclass(frozen=True, slots=True)
class IntentDraft:
    """An intent without the pods of the Services that it names."""

    intent: Intent
    src: tuple[Draft, ...]
    dst: tuple[Draft, ...]

    def finished(self, passage: Passage, surroundings: Surroundings) -> Intent:
        """The intent, after the cluster is known; Services without known pods are errors."""
        sides = []
        for side in (self.src, self.dst):
            found, parts = looked_up(side, passage, surroundings)
            for part in parts:
                passage.say(codes.SERVICE_WITHOUT_PODS, part.span, what=part.what)
            sides.append(found)
        return replace(self.intent, src=sides[0], dst=sides[1])


@dataclass(frozen=True, slots=True)
class IntentText:
    """The intents of one text, in order."""

    passage: Passage
    drafts: tuple[IntentDraft, ...]

    def finished(self, surroundings: Surroundings) -> tuple[Intent, ...]:
        """The intents, after the cluster is known."""
        return tuple(draft.finished(self.passage, surroundings) for draft in self.drafts)


def read_intent_text(passage: Passage) -> IntentText:
    """The intents of a text; mistakes go to the passage's report."""
    parsed = parse_intents(passage.text.text)
    passage.say_problems(parsed)
    drafts = [_draft(item, index, passage) for index, item in enumerate(parsed.items)]
    return IntentText(passage, tuple(drafts))


def _draft(intent: tree.Intent, index: int, passage: Passage) -> IntentDraft:
    given = once(intent.modifiers, passage)
    where = f"{passage.path}[{index}]"
    made = Intent(
        IntentKind(intent.word.text),
        services(intent.services, passage),
        (),
        (),
        Origin(passage.span(intent.word), where),
        _scope(given, passage),
        "including" in given,
        text_of(given.get("as"), passage),
        text_of(given.get("because"), passage),
    )
    return IntentDraft(made, peers(intent.src, passage), peers(intent.dst, passage))


def _scope(given: dict[str, tree.Modifier], passage: Passage) -> Scope:
    scopes = [given[word] for word in ("ingress", "egress") if word in given]
    if len(scopes) == 2:
        hint = "without either, an intent is about both ends"
        passage.say(
            codes.TWO_SCOPES, max((s.token for s in scopes), key=lambda token: token.start), hint
        )
    return Scope(scopes[0].token.text) if scopes else Scope.END_TO_END


def check_names(found: Iterable[Intent], passages: Iterable[Passage]) -> None:
    """Report names that two intents have: their results could not be distinguished."""
    seen: dict[str, Intent] = {}
    for intent, passage in zip(found, passages, strict=True):
        earlier = seen.setdefault(intent.name, intent) if intent.name else intent
        if earlier is not intent:
            finding = codes.NAME_TWICE.at(
                intent.origin.span, intent.origin.path, name=quoted(intent.name)
            )
            finding = finding.note(earlier.origin.span, "the first is here")
            passage.report.add(finding.help("give each its own name"))


def read_intent(raw: RawObject, reading: Reading) -> Pending | None:
    """An Intent object: `spec.intents` is a block of them."""
    decoder = Decoder(reading.report)
    metadata = own_metadata(decoder, raw, _FIELDS)
    spec = decoder.object(raw.node, "spec", "", _SPEC_FIELDS)
    if spec is None:
        if raw.node.get("spec") is None:
            reading.report.add(
                words.REQUIRED.at(raw.node.span_of("spec"), "spec", where="spec").help(_HINT)
            )
        return None
    passage = passage_of(decoder, spec, "intents", "" if metadata is None else metadata.namespace)
    if metadata is None or passage is None:
        return None
    text = read_intent_text(passage)
    if not text.drafts and not reading.report.errors:
        found = codes.NO_INTENTS.at(spec.span_of("intents"), passage.path, name=passage.path)
        reading.report.add(found.help(_HINT))

    def check(surroundings: Surroundings) -> Iterable[Lowered]:
        text.finished(surroundings)
        _check_names_once(text, surroundings)
        return ()

    return Pending(metadata, check, Found(intents=(text,)))


def _check_names_once(text: IntentText, surroundings: Surroundings) -> None:
    """Check the names of everything that was read together; the first text does it for all.

    An intent that is also in --cluster belongs to another report, and is the same intent.
    """
    report = text.passage.report
    texts = [other for other in surroundings.found.intents if other.passage.report is report]
    if texts[0] is text:
        found = [draft.intent for other in texts for draft in other.drafts]
        check_names(found, [other.passage for other in texts for _ in other.drafts])


_HINT = 'a block: `intents: |`, then lines such as: never tcp/22 from any to pod.app == "db"'
