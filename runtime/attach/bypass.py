# SPDX-License-Identifier: Apache-2.0
"""The bypass: TCP data between two pods of the node goes from socket to socket (datapath/bypass.bpf.c).

The hooks at devices call one program, by a slot, which adds the sockets of a connection. Another program
runs on each message of such a socket. A socket keeps the program that the map had when the socket came,
and a program keeps its maps. So both go on after an unload, until the word says otherwise.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal

from policyc.runtime.attach import slaves
from policyc.runtime.attach.program_slot import ProgramSlot
from policyc.runtime.bundle.bundle import BYPASS_OBJECT, Bundle
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.bypass import BypassSockets
from policyc.runtime.state import Generation
from policyc.runtime.undo import Undo

Bypass = Literal["tcp"]
"""The protocols whose data bypasses the stack."""
ADDING, MESSAGES = "pc_bypass_add", "pc_bypass_msg"
"""The program that adds sockets, and the one that runs on messages."""
DENIED = "pc_bypass_deny"
"""The program of the policy's object that decides a connection again, for the loader."""
SLOT = ProgramSlot("pc_bypass_slot")
"""The map by which hooks call the first one."""
SK_MSG_VERDICT = 7
"""Of enum bpf_attach_type: how the second one is attached to its map."""
_NOTING = "log", "limit", "notes"
"""Fields of a rule whose connections stay with the stack."""


def require(bundle: Bundle) -> None:
    """Raise `InputError` unless the bundle has the programs."""
    if BYPASS_OBJECT not in bundle.digests:
        raise InputError(
            f"{bundle.path}: the bundle has no {BYPASS_OBJECT}", "compile it again for --bypass"
        )


def load(pins: Pins, bundle: Bundle) -> Object:
    """The programs, with their maps pinned. The caller closes them."""
    loaded = Object(bundle.path / BYPASS_OBJECT, pins.maps)
    try:
        loaded.load()
    except HostError:
        loaded.close()
        raise
    return loaded


def attach(pins: Pins, loaded: Object, undo: Undo, held: ExitStack) -> None:
    """From now on connections are added. `held` keeps the programs before, which undoing puts back."""
    with BypassSockets(pins) as sockets:
        for ident in bpf_syscall.prog_query_map(sockets.fd, SK_MSG_VERDICT):
            undo.by(_run_on_messages, pins, held.enter_context(bpf_syscall.prog_by_id(ident)))
    _run_on_messages(pins, loaded.program_fd(MESSAGES))
    SLOT.replace(pins, loaded.program_fd(ADDING), undo, held)


def _run_on_messages(pins: Pins, program: int) -> None:
    with BypassSockets(pins) as sockets:
        bpf_syscall.prog_attach_map(program, sockets.fd, SK_MSG_VERDICT)


def devices_of(generation: Generation) -> list[int]:
    """The devices of the pods that may be bypassed."""
    return [
        each.ifindex
        for each in generation.endpoints
        if each.ifindex and each.may_bypass and not slaves.is_slave(each.ifindex)
    ]


def rules_left_alone(generation: Generation) -> Iterator[int]:
    """The ids of rules that log or limit connections, or note them for an audit."""
    for rule in generation.rules:
        if any(rule.get(each) for each in _NOTING):
            yield int(rule["id"])
