# SPDX-License-Identifier: Apache-2.0
"""Where the nanoseconds of a packet are: `python tests/bench/parts.py [--rounds N]`.

The hooks are measured as in packets.py beside copies of themselves that leave one part out, in turns:
what is missing is what the part costs there. A copy is not a datapath: what it leaves out is needed.
Medians over the rounds of the differences. Needs root, clang and a quiet machine.
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

from packets import Measured, rounds_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KNOWN = "known, warm", "known"
NEW = "new TCP", "new Service TCP"

PARTS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "whether a checksum is left to the device": (
        "from_pod.h",
        "flow->packet.csum_partial = pc_csum_partial_of(skb, flow);",
        "flow->packet.csum_partial = PC_PARTIAL_NONE;",
        KNOWN,
    ),
    "the receiver's MTU, of a small packet": (
        "mtu.h",
        "skb->len <= small ||\n"
        "\t\tbpf_check_mtu(skb, device, &mtu, 0, BPF_MTU_CHK_SEGS) == BPF_MTU_CHK_RET_SUCCESS;",
        "small || device || mtu;",
        KNOWN,
    ),
    "MACs, hop limit and checksum written": (
        "forward.h",
        "return !bpf_skb_store_bytes(skb, 0, &head, sizeof(head), 0);",
        "return head.dmac[0] != 0xff;",
        KNOWN,
    ),
    "handing over (bpf_redirect_peer)": (
        "hooks.bpf.c",
        "\t\tpc_bypass_offer(skb, flow);\n\tif (!step && flow->action.forward_to)\n"
        "\t\treturn bpf_redirect_peer(flow->action.forward_to, 0);",
        "\t\tpc_bypass_offer(skb, flow);\n\tif (!step && flow->action.forward_to)\n"
        "\t\treturn TC_ACT_REDIRECT;",
        KNOWN,
    ),
    "the entry's state and time": (
        "from_pod.h",
        "\t\tpc_from_pod_touch(match, flow);\n\t}\n\tpc_frag_passed(flow);",
        "\t\tif (!match->at.is_established)\n\t\t\tpc_from_pod_touch(match, flow);\n\t}\n"
        "\tpc_frag_passed(flow);",
        KNOWN,
    ),
    "the policy program, and the entries in the connections' tables": (
        "from_pod.h",
        "\treturn pc_ask_new(skb, flow, state);",
        "\treturn PC_PASS;",
        NEW,
    ),
    "of these, the entries": (
        "ct_store.h",
        "stored = pc_ct_put_new(t, flow->now, flow->second);",
        "stored = ct->flow_id | 1;",
        NEW,
    ),
    "of these, the places of quotas": (
        "ct_store.h",
        "PC_STORE(pc_ct4_new, pc_place4_new, PC_NEW_ENTRIES, room, struct pc_ct4_key,\n"
        "\t\t\t\tct, pc_ct4_yields) ||",
        "!bpf_map_update_elem(&pc_ct4_new, room->key, ct, BPF_ANY) ||",
        NEW,
    ),
    "whether the stack is to be skipped, and both routes (pc_first)": (
        "policy_run.h",
        "\t\tpc_first_offer(skb, flow);\n\treturn verdict;",
        "\t\treturn verdict;\n\treturn verdict;",
        NEW,
    ),
    "an endpoint of the Service by chance": (
        "service_pick.h",
        "n = bpf_get_prandom_u32() % pool->count;",
        "n = 0;",
        ("new Service TCP",),
    ),
    "whether the client's port is free there": (
        "service_pick.h",
        "has_port = pc_service_port(flow);",
        "has_port = flow->tuple.sport;",
        ("new Service TCP",),
    ),
}
"""What is left out: in which header, the text, what stands there instead, and of which packets."""


def _copy(part: str, into: Path) -> Path:
    file, old, new, _ = PARTS[part]
    shutil.copytree(ROOT / "runtime" / "datapath", into)
    text = (into / file).read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{file} does not have it once: {old!r}")
    (into / file).write_text(text.replace(old, new))
    return into


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="policyc-bench-") as name:
        folders = [_copy(part, Path(name) / str(at)) for at, part in enumerate(PARTS)]
        beds: list[tuple[Path, Path | None, str]] = [(ROOT, None, "")]
        for folder, (*_, whats) in zip(folders, PARTS.values(), strict=True):
            beds.append((ROOT, folder, "known" if whats == KNOWN else "new"))
        whole, *others = rounds_of(beds, given.rounds)
    print("| IPv4, ns net of an empty program | " + " | ".join((*KNOWN, *NEW)) + " |")
    print("|---|" + "---|" * len((*KNOWN, *NEW)))
    print(_row("a packet, whole", {what: _median(whole, what) for what in (*KNOWN, *NEW)}))
    for (part, (*_, whats)), found in zip(PARTS.items(), others, strict=True):
        pairs = {what: _difference(whole, found, what) for what in whats}
        print(_row(part, pairs))


def _median(found: Measured, what: str) -> float:
    return statistics.median(each[f"{what}, IPv4"] for each in found)


def _difference(whole: Measured, without: Measured, what: str) -> float:
    name = f"{what}, IPv4"
    return statistics.median(a[name] - b[name] for a, b in zip(whole, without, strict=True))


def _row(part: str, found: dict[str, float]) -> str:
    cells = (f"{found[what]:.0f}" if what in found else "" for what in (*KNOWN, *NEW))
    return f"| {part} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
