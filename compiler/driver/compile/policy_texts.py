# SPDX-License-Identifier: Apache-2.0
"""The text of policies.json, built from one text per policy.

The text of a policy depends on no other policy. Its position (its file and the line of its name) comes
last. So the text of an unchanged policy can be reused, even if the policy moved.
"""

from collections.abc import Iterable

from policyc.compiler.driver.compile.json_lines import (
    joined_members,
    list_text,
    member_text,
    object_text,
)
from policyc.ir import policy as ir
from policyc.ir.encoding import Encoder
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.intervals import IntervalSet
from policyc.ir.services import Kind, Protocol
from policyc.ir.spans import Origin, Span

POLICIES_FILE = "policies.json"
POLICIES_SCHEMA = "policyc.dev/policies/v2"
_IR = (kind for name in ir.__all__ if isinstance(kind := getattr(ir, name), type))
TYPES = (*_IR, IntervalSet, Kind, Origin, Protocol, Span)
"""The types inside items, beside tuples, sets, mappings, networks and addresses."""
_ENCODER = Encoder(TYPES)


@dataclass(frozen=True, slots=True)
class ItemText:
    """A line of policies.json, in three parts: `values` do not depend on the object's position.

    If it moved, `dataclasses.replace` the file and the line of its name.
    """

    values: str
    file: str
    line: int

    @property
    def text(self) -> str:
        """The line; `"line"` is its last member, `"file"` the one before."""
        return f'{{{self.values},"file":{member_text(self.file)},"line":{self.line}}}'


@dataclass(frozen=True, slots=True)
class TierText:
    """A tier: its own settings, and the texts of its policies in order."""

    name: str
    mode: ir.TierMode
    unmatched: ir.Action
    policies: Iterable[str]

    @property
    def text(self) -> str:
        """The tier as an item of the list of tiers."""
        return object_text(
            {
                "name": member_text(self.name),
                "mode": member_text(self.mode.value),
                "unmatched": member_text(self.unmatched.value),
                "policies": list_text(self.policies),
            }
        )


def item_text(value: object, place: Span) -> ItemText:
    """The text of a value made of TYPES, encoded relative to `place`."""
    return ItemText(_ENCODER.members(value, place), place.file, place.line)


def policy_text(policy: ir.Policy) -> ItemText:
    """The text of a live policy."""
    return item_text(policy, policy.origin.span)


def policies_text(
    profile: str, tiers: Iterable[TierText], staged: Iterable[str], hosts: Iterable[str]
) -> str:
    """policies.json from the texts of its items (`ItemText.text`), all in their order."""
    return joined_members(
        {
            "schema": member_text(POLICIES_SCHEMA),
            "profile": member_text(profile),
            "types": member_text(_ENCODER.table),
            "tiers": list_text(tier.text for tier in tiers),
            "staged": list_text(staged),
            "hosts": list_text(hosts),
        }
    )
