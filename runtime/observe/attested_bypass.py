# SPDX-License-Identifier: Apache-2.0
"""The programs and maps of the bypass, beside what the load should have made of them."""

from collections.abc import Iterator

from policyc.runtime.attach import bypass
from policyc.runtime.attach.socket_listing import BYPASSED
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.bypass import ByEpoch, BypassPods, BypassRules, BypassSockets
from policyc.runtime.observe.attested_programs import Programs
from policyc.runtime.state import Generation


def bypass_faults(pins: Pins, programs: Programs, generation: Generation) -> tuple[int, list[str]]:
    """How many programs, pods and rules were compared, and what differs."""
    if not generation.bypass:
        found = bypass.SLOT.program(pins)
        return 1, (
            [f"{bypass.SLOT.name}: a program is called, contrary to the load"] if found else []
        )
    faults = [*_programs(pins, programs, generation)]
    devices, rules = bypass.devices_of(generation), {*bypass.rules_left_alone(generation)}
    for kind, due in ((BypassPods, set(devices)), (BypassRules, rules)):
        with kind(pins) as there:
            faults += _differences(there, generation.epoch, due)
    return 4 + len(devices) + len(rules), faults


def _programs(pins: Pins, programs: Programs, generation: Generation) -> Iterator[str]:
    called = bypass.SLOT.program(pins)
    if called:
        yield from programs.differences(called, bypass.ADDING, bypass.SLOT.name)
    else:
        yield f"{bypass.SLOT.name}: no program is called"
    with BypassSockets(pins) as sockets:
        attached = bpf_syscall.prog_query_map(sockets.fd, bypass.SK_MSG_VERDICT)
    if not attached:
        yield f"{BypassSockets.NAME}: no program runs on messages"
    for ident in attached:
        yield from programs.differences(ident, bypass.MESSAGES, BypassSockets.NAME)
    for name in (BYPASSED.name, bypass.DENIED):
        pin = pins.generation(generation.epoch) / name
        if not pin.exists():
            yield f"{name}: there is no such program"
            continue
        with bpf_syscall.obj_get(pin) as fd:
            ident = bpf_syscall.prog_info(fd).id
        yield from programs.differences(ident, name, str(pin))


def _differences(there: ByEpoch, epoch: int, due: set[int]) -> Iterator[str]:
    found = there.numbers(epoch)
    for number in sorted(due - found):
        yield f"{there.NAME}: the {there.FIELD} {number} is missing"
    for number in sorted(found - due):
        yield f"{there.NAME}: expected no {there.FIELD} {number}"
