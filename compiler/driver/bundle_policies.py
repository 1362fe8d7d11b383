# SPDX-License-Identifier: Apache-2.0
"""policies.json of a bundle: the policies that it enforces, to be compared with others later.

The Policy IR with its places, and none of the input's text: that may hold what is nobody's business on a
node, such as Secrets between the policies.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policyc.compiler.driver.codes import BUNDLE_BROKEN
from policyc.compiler.frontend.calico_hosts import HostEndpoint
from policyc.compiler.frontend.lowered import (
    AdminSlot,
    BaselineSlot,
    CalicoSlot,
    CiliumSlot,
    ExtendedSlot,
    Lowered,
    NetworkPolicySlot,
    Profile,
)
from policyc.compiler.frontend.read import PolicyInput
from policyc.compiler.frontend.sources import InputFile
from policyc.ir import policy as ir
from policyc.ir.encoding import DecodingError, decode, encode
from policyc.ir.errors import InputError
from policyc.ir.intervals import IntervalSet
from policyc.ir.services import Kind, Protocol
from policyc.ir.spans import Origin, Span
from policyc.runtime.bundle import MANIFEST, read_bundle
from policyc.runtime.errors import InputError as BadBundle

POLICIES_FILE = "policies.json"
POLICIES_SCHEMA = "policyc.dev/policies/v1"
_BUNDLE_SCHEMAS = "policyc.dev/bundle/"
_AGAIN = "compile it again with this release"
_SLOTS = (AdminSlot, BaselineSlot, CalicoSlot, CiliumSlot, ExtendedSlot, NetworkPolicySlot)
_IR = tuple(kind for name in ir.__all__ if isinstance(kind := getattr(ir, name), type))


@dataclass(frozen=True, slots=True)
class BundledPolicies:
    """What policies.json holds: the live policies in their tiers, the staged ones, host endpoints."""

    profile: Profile
    live: ir.PolicySet
    staged: tuple[Lowered, ...]
    hosts: tuple[HostEndpoint, ...]


_TYPES = (
    *_IR,
    *_SLOTS,
    BundledPolicies,
    HostEndpoint,
    IntervalSet,
    Kind,
    Lowered,
    Origin,
    Profile,
    Protocol,
    Span,
)


def policies_json(given: PolicyInput, enforced: ir.PolicySet) -> str:
    """The text of policies.json. `enforced` are the policies as the bundle enforces them."""
    hosts = tuple(item for item in given.provided if isinstance(item, HostEndpoint))
    held = BundledPolicies(given.profile, enforced, given.staged, hosts)
    value = {"schema": POLICIES_SCHEMA, **encode(held, _TYPES)}
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"


def is_bundle(path: str) -> bool:
    """Whether a path is a directory with the manifest of a bundle, of whichever release."""
    try:
        manifest = json.loads((Path(path) / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    return isinstance(schema, str) and schema.startswith(_BUNDLE_SCHEMAS)


def read_bundled(path: str) -> PolicyInput:
    """The policies of a bundle; places read `bundle:PATH:FILE`.

    Raises InputError where a file was changed, or the bundle is of a release that kept no policies.
    """
    try:
        bundle = read_bundle(Path(path))
    except BadBundle as failure:
        raise _broken(path, failure.message, failure.hint or _AGAIN) from failure
    if POLICIES_FILE not in bundle.digests:
        raise _broken(path, f"it has no {POLICIES_FILE}", _AGAIN)
    try:
        value = json.loads((Path(path) / POLICIES_FILE).read_text("utf-8"))
        if not isinstance(value, dict) or value.pop("schema", None) != POLICIES_SCHEMA:
            raise DecodingError(f"the schema is not {POLICIES_SCHEMA}")
        held = decode(_placed(value, f"bundle:{path}:"), _TYPES)
    except (ValueError, TypeError, LookupError, RecursionError) as failure:
        raise _broken(path, f"{POLICIES_FILE}: {failure}", _AGAIN) from failure
    if not isinstance(held, BundledPolicies):
        raise _broken(path, f"{POLICIES_FILE}: it holds no policies", _AGAIN)
    return _as_input(path, bundle.digests[POLICIES_FILE], held)


def _placed(value: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The encoded value whose places say that they are in the bundle."""
    for entry in value.get("entries", ()):
        if entry[0] == Span.__name__:
            entry[1] = prefix + entry[1]
    return value


def _as_input(path: str, digest: str, held: BundledPolicies) -> PolicyInput:
    return PolicyInput(
        held.live,
        (InputFile(f"bundle:{path}:{POLICIES_FILE}", digest),),
        profile=held.profile,
        lowered=held.staged,
        provided=held.hosts,
    )


def _broken(path: str, problem: str, hint: str) -> InputError:
    return InputError([BUNDLE_BROKEN.at(Span(path, 0, 0), name=path, problem=problem).help(hint)])
