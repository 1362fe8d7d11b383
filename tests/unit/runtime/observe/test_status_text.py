# SPDX-License-Identifier: Apache-2.0
"""The status for people: names come from input, and nothing in them acts on a terminal or a log."""

import io

from rich.console import Console

from policyc.ir.printable import printable
from policyc.runtime.observe.status import (
    NodeStatus,
    RuleCount,
)
from policyc.runtime.observe.status_text import show
from policyc.runtime.state import LoadedEndpoint

EVIL = "a\n::error::x\x1b[31m\u202e[red]b"


def test_ipsec_policies_and_packets_between_nodes_are_shown() -> None:
    counts = dict.fromkeys(("sent", "sent_by_device", "received", "received_by_device"), 7)
    for has_ipsec in (False, True):
        status = NodeStatus(
            "n", "b", "00", 1, 0, "redirect", (), "tunnel", (), (), (), (), {}, (),
            has_ipsec=has_ipsec, tunnel=counts,
        )  # fmt: skip
        out = io.StringIO()
        show(status, Console(file=out, width=400, force_terminal=False))
        assert ("IPsec policies" in out.getvalue()) == has_ipsec
        assert "packets between nodes: 7 encapsulated, 7 decapsulated" in out.getvalue()


def test_first_packets_on_the_stack_path_are_shown_where_pods_use_the_fast_path() -> None:
    for has_peer in (False, True):
        pod = LoadedEndpoint(1, "shop", "web", (), "veth0", 3, "", {}, has_peer=has_peer)
        for first_packets in (False, True):
            status = NodeStatus(
                "n", "b", "00", 1, 0, "redirect", (), "tunnel", (), (pod,), (), (), {}, (),
                first_packets=first_packets,
            )  # fmt: skip
            out = io.StringIO()
            show(status, Console(file=out, width=400, force_terminal=False))
            is_shown = "first packets take the stack path" in out.getvalue()
            assert is_shown == (has_peer and not first_packets)


def test_first_packets_on_the_stack_path_at_uplinks_are_shown() -> None:
    pod = LoadedEndpoint(1, "shop", "web", (), "veth0", 3, "", {}, has_peer=True)
    for by_uplinks in (False, True):
        status = NodeStatus(
            "n", "b", "00", 1, 0, "redirect", ("eth0",), "tunnel", (), (pod,), (), (), {}, (),
            first_packets=True, first_packets_by_uplinks=by_uplinks,
        )  # fmt: skip
        out = io.StringIO()
        show(status, Console(file=out, width=400, force_terminal=False))
        assert ("first packets to and from other nodes" in out.getvalue()) == (not by_uplinks)


def test_names_are_escaped() -> None:
    endpoint = LoadedEndpoint(1, "shop", EVIL, ("10.0.0.1",), EVIL, 3, "02:00:00:00:00:01", {})
    rule = RuleCount(7, 1, "allow", EVIL)
    status = NodeStatus(
        EVIL, EVIL, "00", 1, 0, "redirect", (), "tunnel", (), (endpoint,), (), (rule,), {}, (EVIL,),
        missing_devices=(EVIL,), denied_devices=(EVIL,), deny_devices=(EVIL,),
    )  # fmt: skip
    out = io.StringIO()
    show(status, Console(file=out, width=400, force_terminal=False), printable)
    shown = out.getvalue()
    assert not [line for line in shown.splitlines() if line.lstrip().startswith("::")]
    assert "\x1b" not in shown and "\u202e" not in shown
    assert shown.count("[red]b") >= 7, "brackets are no markup"
