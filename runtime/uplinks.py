# SPDX-License-Identifier: Apache-2.0
"""The devices by which clients outside the cluster reach the node, as `--uplink` names them."""

import socket
from collections.abc import Iterable, Mapping
from typing import Literal

from policyc.runtime.errors import InputError

Outside = Literal["tunnel", "dsr"]
"""How a client is answered that came to another node: back by that one, or by the endpoint's own."""


def find(names: Iterable[str], pods: Mapping[str, int]) -> dict[str, int]:
    """Name -> ifindex. `InputError` for one that is not there, or is a pod's (`pods`, by name)."""
    found: dict[str, int] = {}
    for name in names:
        if name in pods:
            raise InputError(
                f"--uplink {name}: the endpoints file says that a pod is behind that device",
                "name the device that leads out of the node",
            )
        try:
            found[name] = socket.if_nametoindex(name)
        except OSError as error:
            raise InputError(
                f"--uplink {name}: there is no such device here",
                "`ip route` shows by which devices the node reaches others",
            ) from error
    return found
