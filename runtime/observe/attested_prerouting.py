# SPDX-License-Identifier: Apache-2.0
"""The program in netfilter's PREROUTING: the bundle's, for both IP families and all pods' devices?"""

from collections.abc import Iterator

from policyc.runtime.attach import prerouting
from policyc.runtime.bundle.bundle import PREROUTING_OBJECT, Bundle
from policyc.runtime.kernel import features
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.hooked import HookedDevices
from policyc.runtime.maps.settings import FirstPacketSettings
from policyc.runtime.observe.attested_programs import Programs
from policyc.runtime.state import Generation


def prerouting_faults(
    pins: Pins, bundle: Bundle, programs: Programs, generation: Generation
) -> tuple[int, list[str]]:
    """How many programs and devices were compared, and what is wrong with them."""
    if PREROUTING_OBJECT not in bundle.digests or not features.NETFILTER.is_there():
        return 1, [*_own_hooks(pins, 0)]
    faults = [*_programs(pins, programs), *_own_hooks(pins, 1)]
    pods = {at.ifindex: at.interface for at in generation.attachments if at.role == "pod"}
    if HookedDevices.is_there(pins):
        with HookedDevices(pins) as devices:
            missing = pods.keys() - devices.ifindexes()
        faults += (f"{HookedDevices.NAME}: {pods[each]} is missing" for each in sorted(missing))
    return len(prerouting.FAMILIES) + len(pods) + 1, faults


def _programs(pins: Pins, programs: Programs) -> Iterator[str]:
    attached = dict(prerouting.attached(pins))
    for family in prerouting.FAMILIES:
        where = f"netfilter, {family}"
        if family in attached:
            yield from programs.differences(attached[family], prerouting.PROGRAM, where)
        else:
            yield f"{where}: {prerouting.PROGRAM} is not attached"


def _own_hooks(pins: Pins, due: int) -> Iterator[str]:
    """With a larger number, first packets would skip hooks of other software."""
    if not FirstPacketSettings.is_there(pins):
        return
    with FirstPacketSettings(pins) as known:
        found = known.n_hooks
    if found != due:
        yield f"{FirstPacketSettings.NAME}: {found} hooks are called ours, expected {due}"
