# SPDX-License-Identifier: Apache-2.0
"""First packets on the fast path: only those that the load allowed, and by the bundle's program?

The load's record says which: at the load other software had no programs where such packets skip them.
"""

from collections.abc import Iterator

from policyc.runtime.attach.program_slot import FIRST, FIRST_HOOK
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.settings import FirstPacketSettings
from policyc.runtime.observe.attested_programs import Programs
from policyc.runtime.state import Generation


def first_packet_faults(pins: Pins, programs: Programs, generation: Generation) -> Iterator[str]:
    """What differs from the record of the load."""
    called = FIRST.program(pins)
    if bool(called) != generation.first_packets:
        what = "a program is called, expected none" if called else "no program is called"
        yield f"{FIRST.name}: {what}"
    elif called:
        yield from programs.differences(called, FIRST_HOOK, FIRST.name)
    if not FirstPacketSettings.is_there(pins):
        return
    with FirstPacketSettings(pins) as settings:
        found = settings.has_other_nodes
    if found != (wanted := generation.first_packets_by_uplinks):
        yield f"{FirstPacketSettings.NAME}: other_nodes is {found}, expected {wanted}"
