# SPDX-License-Identifier: Apache-2.0
"""The annotations of policyc on a Service, for options that the API has no field for."""

from typing import get_args

from policyc.runtime.bundle.json_value import (
    JsonValue,
    one_of,
)
from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.services import maglev

_BALANCE, _MAGLEV_SLOTS = "policyc.dev/balance", "policyc.dev/maglev-slots"
_OUTSIDE = "policyc.dev/outside"
_WAYS: tuple[ReturnPath, ...] = get_args(ReturnPath)


def maglev_slots(metadata: JsonValue) -> int:
    """The number of entries of the Service's Maglev table; 0: endpoints are chosen at random.

    By `policyc.dev/balance` and `policyc.dev/maglev-slots`; `InputError` for any other value.
    """
    annotations = _annotations(metadata)
    balance = one_of(annotations.get(_BALANCE), ("random", "maglev"), "random")
    sizes = tuple(map(str, maglev.SIZES))
    size = int(one_of(annotations.get(_MAGLEV_SLOTS), sizes, str(maglev.USUAL)))
    return size if balance == "maglev" else 0


def return_path(metadata: JsonValue) -> ReturnPath | None:
    """The return path to external clients that came to a node other than the endpoint's.

    Set by `policyc.dev/outside`; None: as the load says. `InputError` for any other value.
    """
    said = one_of(_annotations(metadata).get(_OUTSIDE), _WAYS, "")
    return next((way for way in _WAYS if way == said), None)


def _annotations(metadata: JsonValue) -> dict[str, JsonValue]:
    found = metadata.members().get("annotations")
    return found.members() if found and found.raw is not None else {}
