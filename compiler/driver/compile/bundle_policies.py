# SPDX-License-Identifier: Apache-2.0
"""policies.json of a bundle: the policies that it enforces, for later comparisons.

The file holds the Policy IR with its places, and none of the input's text. The text may hold secrets
that a node must not have, such as Secrets between the policies.
"""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from policyc.compiler.driver.codes import BUNDLE_BROKEN
from policyc.compiler.driver.compile.policy_texts import (
    POLICIES_FILE,
    POLICIES_SCHEMA,
    TYPES,
    ItemText,
    TierText,
    item_text,
    policies_text,
    policy_text,
)
from policyc.compiler.frontend.found import Found
from policyc.compiler.frontend.garbage_collection import collector_paused
from policyc.compiler.frontend.lowered import (
    AdminSlot,
    BaselineSlot,
    CalicoSlot,
    CiliumSlot,
    ExtendedSlot,
    Lowered,
    NetworkPolicySlot,
    Profile,
    Slot,
)
from policyc.compiler.frontend.read import PolicyInput
from policyc.compiler.frontend.yaml.sources import InputFile
from policyc.ir import policy as ir
from policyc.ir.encoding import Decoder, DecodingError
from policyc.ir.errors import InputError
from policyc.ir.hosts import HostEndpoint
from policyc.ir.spans import Span
from policyc.runtime.bundle.bundle import (
    MANIFEST,
    read_bundle,
)
from policyc.runtime.bundle.regular_file import read as read_regular
from policyc.runtime.errors import InputError as BadBundle

_MEMBERS = frozenset({"profile", "types", "tiers", "staged", "hosts"})
_BUNDLE_SCHEMAS = "policyc.dev/bundle/"
_MOST_MANIFEST = 64 << 20
_AGAIN = "compile it again with this release"
_SLOT_KINDS = (AdminSlot, BaselineSlot, CalicoSlot, CiliumSlot, ExtendedSlot, NetworkPolicySlot)
_SLOTS = {kind.__name__: kind for kind in _SLOT_KINDS}


@dataclass(frozen=True, slots=True)
class BundledPolicies:
    """The contents of policies.json: live policies in their tiers, staged ones, host endpoints."""

    profile: Profile
    live: ir.PolicySet
    staged: tuple[Lowered, ...]
    hosts: tuple[HostEndpoint, ...]


def policies_json(given: PolicyInput, enforced: ir.PolicySet) -> str:
    """The text of policies.json. `enforced` are the policies as the bundle enforces them."""
    tiers = [
        TierText(t.name, t.mode, t.unmatched, [policy_text(policy).text for policy in t.policies])
        for t in enforced.tiers
    ]
    staged = [staged_text(item).text for item in given.staged]
    hosts = [host_text(h).text for h in given.found.hosts]
    return policies_text(given.profile.value, tiers, staged, hosts)


def staged_text(item: Lowered) -> ItemText:
    """The text of a staged policy, with its position if it were live."""
    slot = {"kind": type(item.slot).__name__, **_fields(item.slot)}
    return item_text({"policy": item.policy, "slot": slot}, item.policy.origin.span)


def host_text(host: HostEndpoint) -> ItemText:
    """The text of a host endpoint: its fields by their names."""
    return item_text(_fields(host), host.span)


def _fields(value: Slot | HostEndpoint) -> dict[str, object]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def is_bundle(path: str) -> bool:
    """Whether a path is a directory with the manifest of a bundle, of any release."""
    try:
        manifest = json.loads(read_regular(Path(path) / MANIFEST, _MOST_MANIFEST))
    except (OSError, ValueError):
        return False
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    return isinstance(schema, str) and schema.startswith(_BUNDLE_SCHEMAS)


def read_bundled(path: str) -> PolicyInput:
    """The policies of a bundle; places read `bundle:PATH:FILE`.

    Raises InputError if a file was changed, or the bundle is of a release that stored no policies.
    """
    try:
        bundle = read_bundle(Path(path))
    except BadBundle as failure:
        raise _broken(path, failure.message, failure.hint or _AGAIN) from failure
    if POLICIES_FILE not in bundle.digests:
        raise _broken(path, f"it has no {POLICIES_FILE}", _AGAIN)
    try:
        held = parse_policies((Path(path) / POLICIES_FILE).read_text("utf-8"), f"bundle:{path}:")
    except ValueError as failure:
        raise _broken(path, f"{POLICIES_FILE}: {failure}", _AGAIN) from failure
    return _as_input(path, bundle.digests[POLICIES_FILE], held)


def parse_policies(text: str, prefix: str = "") -> BundledPolicies:
    """The contents of policies.json; the files of its places begin with `prefix`.

    Raises DecodingError if it is not what `policies_json` of this release writes.
    """
    try:
        with collector_paused():
            return _held(json.loads(text), prefix)
    except DecodingError:
        raise
    except (ValueError, TypeError, LookupError, RecursionError) as failure:
        raise DecodingError(f"it is not of this release: {failure}") from failure


def _held(value: object, prefix: str) -> BundledPolicies:
    if not isinstance(value, dict) or value.pop("schema", None) != POLICIES_SCHEMA:
        raise DecodingError(f"the schema is not {POLICIES_SCHEMA}")
    if set(value) != _MEMBERS:
        raise DecodingError(f"expected the members {', '.join(sorted(_MEMBERS))}")
    decoder = Decoder(TYPES, value["types"], prefix)
    return BundledPolicies(
        Profile(value["profile"]),
        ir.PolicySet(tuple(_tier(tier, decoder) for tier in value["tiers"])),
        tuple(_staged(_item(item, decoder)) for item in value["staged"]),
        tuple(HostEndpoint(**_item(item, decoder)) for item in value["hosts"]),
    )


def _tier(tier: object, decoder: Decoder) -> ir.Tier:
    match tier:
        case {"name": str(name), "mode": mode, "unmatched": unmatched, "policies": list(items)}:
            policies = tuple(_policy(_item(item, decoder)) for item in items)
            return ir.Tier(name, ir.TierMode(mode), ir.Action(unmatched), policies)
    raise DecodingError("a tier is not of this release")


def _policy(value: object) -> ir.Policy:
    if not isinstance(value, ir.Policy):
        raise DecodingError("its policies contain another object")
    return value


def _staged(value: object) -> Lowered:
    match value:
        case {"policy": policy, "slot": dict(slot)}:
            values = {**slot}
            kind = _SLOTS[values.pop("kind")]
            return Lowered(_policy(policy), kind(**values), is_staged=True)
    raise DecodingError("a staged policy is not of this release")


def _item(item: object, decoder: Decoder) -> Any:
    """The value of a line."""
    match item:
        case {"entries": list(entries), "root": root, "file": str(file), "line": int(line)}:
            return decoder.value(entries, root, Span(file, line, 0))
    raise DecodingError("a line is not of this release")


def _as_input(path: str, digest: str, held: BundledPolicies) -> PolicyInput:
    return PolicyInput(
        held.live,
        (InputFile(f"bundle:{path}:{POLICIES_FILE}", digest),),
        profile=held.profile,
        lowered=held.staged,
        found=Found(hosts=held.hosts),
    )


def _broken(path: str, problem: str, hint: str) -> InputError:
    return InputError([BUNDLE_BROKEN.at(Span(path, 0, 0), name=path, problem=problem).help(hint)])
