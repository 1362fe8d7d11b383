# SPDX-License-Identifier: Apache-2.0
"""The devices of this node's pods, and the pods whose device is gone.

A pod may be deleted after the endpoints file was written and before the load. With `skip` the load
continues with the other pods. The deleted pod keeps its addresses and policies; its ifindex is one that
no device has.
"""

import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from policyc.runtime.endpoints.endpoints import EndpointRecord
from policyc.runtime.errors import InputError
from policyc.runtime.state import Generation

Missing = Literal["refuse", "skip"]
"""How a load handles a pod whose device does not exist."""
NO_DEVICE = 0xFFFFFFFF
"""An ifindex that no device has: the kernel's are positive ints.

0 would make it a pod of another node: then external hosts could claim its address, and packets to it
could leave by an uplink.
"""
SKIP_HINT = "--missing-devices skip loads the other pods"


def local_devices(
    records: Iterable[EndpointRecord],
    missing: Missing = "refuse",
    warn: Callable[[str], object] = lambda _: None,
) -> dict[str, int]:
    """Interface -> ifindex of every local pod.

    A missing one is an `InputError`, or with `skip` left out with a warning.
    """
    found: dict[str, int] = {}
    for record in records:
        if record.interface is None or record.slave is not None:
            continue
        try:
            found[record.interface] = socket.if_nametoindex(record.interface)
        except OSError as error:
            if missing == "skip":
                warn(_warning(str(record), record.interface))
                continue
            raise InputError(
                f"the pod {record} has the interface {record.interface}, which does not exist here",
                "name the node's side of the pod's device, and run in the host's network namespace; "
                "for an ipvlan device, which has no such side, also give `netns`; " + SKIP_HINT,
            ) from error
    return found


def without_missing(
    generation: Generation, devices: Mapping[str, int], warn: Callable[[str], object]
) -> Generation:
    """The generation, with only these devices left for its pods."""
    gone = {
        each.id: replace(each, ifindex=0, has_peer=False)
        for each in generation.endpoints
        if each.ifindex and each.interface and each.interface not in devices
    }
    for each in gone.values():
        warn(_warning(each.title, each.interface))
    endpoints = (gone.get(each.id, each) for each in generation.endpoints)
    attachments = (
        at for at in generation.attachments if at.role != "pod" or at.interface in devices
    )
    return replace(generation, endpoints=tuple(endpoints), attachments=tuple(attachments))


def _warning(pod: str, interface: str) -> str:
    return f"the device {interface} of the pod {pod} is missing: no packet is delivered to this pod"
