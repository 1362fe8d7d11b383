# SPDX-License-Identifier: Apache-2.0
"""The parts of the page about a change: the changed policies, and the regions with their flows."""

from collections.abc import Iterator

from policyc.backends.report.flows import flow_words
from policyc.backends.report.html.markup import Markup, cells, joined, table, tag, text
from policyc.backends.report.html.places import Places
from policyc.backends.report.verdicts import verdict_words
from policyc.backends.report.words import DID, MAY_BE
from policyc.ir.policy import Policy
from policyc.ir.results.common import Evidence, Witness
from policyc.ir.results.diff import Difference, DiffResult
from policyc.ir.results.objects import ObjectChanges

SIGNS = {"opened": "+", "closed": "−", "changed": "~", "latent": "·"}
"""The sign of each change, so that no meaning is carried by colour alone."""
_HEADS = ("Change", "From", "To", "Services", "Decided before by", "Decided after by", "Example")


def objects(changes: ObjectChanges, places: Places) -> Markup:
    """The changed policies: a sentence for each namespace, and a row for each policy."""
    if not changes:
        return tag("p", "No policy was added, removed or changed.")
    summary = tag("ul", *(tag("li", each) for each in changes.summary))
    rows = [tag("tr", row) for row in _object_rows(changes, places)]
    return joined((summary, table("Changed policies", ("What", "Kind", "Before", "After"), rows)))


def _object_rows(changes: ObjectChanges, places: Places) -> Iterator[Markup]:
    for policy in changes.removed:
        yield _object("removed", policy, places.policy(policy), "")
    for policy in changes.added:
        yield _object("added", policy, "", places.policy(policy))
    for what, pairs in (
        ("changed", changes.changed),
        ("renamed", changes.renamed),
        ("reordered", changes.reordered),
    ):
        for before, after in pairs:
            yield _object(what, after, places.policy(before), places.policy(after))


def _object(what: str, policy: Policy, before: str, after: str) -> Markup:
    return cells(what, policy.kind, before, after)


def regions(diff: DiffResult, places: Places) -> Markup:
    """A row for each region: what else the page shows of it comes from this row."""
    given = [(each, True) for each in diff.differences]
    given += [(each, False) for each in diff.possible]
    if not given:
        return tag("p", "No region of flows is shown.")
    rows = (
        _region(number, difference, is_certain, diff.evidence, places)
        for number, (difference, is_certain) in enumerate(given)
    )
    return table("Regions of flows whose verdict differs", (*_HEADS, "Proof"), rows, id="regions")


def _region(
    number: int, each: Difference, is_certain: bool, evidence: Evidence, places: Places
) -> Markup:
    did = DID[each.kind]
    return tag(
        "tr",
        cells(
            badge(did, is_certain),
            each.src,
            each.dst,
            _services(each),
            places.links(each.before),
            places.links(each.after),
            witness(each.witness),
            _proof(is_certain, evidence),
        ),
        id=f"region-{number}",
        data_state=did,
        data_certain="yes" if is_certain else "no",
    )


def badge(did: str, is_certain: bool = True) -> Markup:
    """The change of a region, with its sign."""
    if is_certain:
        return tag("span", f"{SIGNS[did]} {did}", class_=f"badge {did}")
    words = next(may_be for kind, may_be in MAY_BE.items() if DID[kind] == did)
    return tag("span", f"? {words}", class_="badge undecided")


def _services(each: Difference) -> Markup:
    direction = "" if each.direction is None else f" ({each.direction.value})"
    pairs = "" if each.n_pairs is None else f", {each.n_pairs} pairs of ends"
    note = tag("span", f"{direction}{pairs}", class_="faint")
    return joined((text(", ".join(each.services)), note))


def witness(found: Witness) -> Markup:
    """A flow, and its verdict under each label with the rule that decides it."""
    lines = [
        tag("li", f"{label}: {words}" if label else words)
        for label, verdict in found.verdicts
        for words in verdict_words(verdict)
    ]
    return joined((tag("p", flow_words(found.flow), class_="flow"), tag("ul", *lines)))


def _proof(is_certain: bool, evidence: Evidence) -> Markup:
    if not is_certain:
        return tag("strong", "not decided: it depends on an opaque rule")
    replayed = "the example was replayed through the reference semantics"
    return text(replayed if evidence.replayed_witnesses else evidence.method)
