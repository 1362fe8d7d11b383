# SPDX-License-Identifier: Apache-2.0
"""Policy programs with one wrong thing, and the lemma over them."""

from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.object import read_object
from policyc.verifier.translation.code_lemma import CodeLemma
from policyc.verifier.translation.policy_runs import run_policy
from tests.unit.verifier.translation.generations import Made


def lemma_of(case: Made, code: bytes) -> CodeLemma:
    """The lemma about an object, with the plan of a case."""
    return CodeLemma(run_policy(read_object(code)), case.plan, case.lemma().codes)


WRONG: dict[str, tuple[str, str]] = {
    "ends change places": ("pc_class_at(flow->src.id), *peer", "pc_class_at(flow->dst.id), *peer"),
    "another column for IPv6": ("peer->egress_column6", "peer->egress_column4"),
    "the table is one column narrower": ("(&pc_cells_eg, 128, 192,", "(&pc_cells_eg, 128, 191,"),
    "an address too far": ("a < 0xcb007200", "a < 0xcb007201"),
    "the peer is not looked up": ("if (flow->dst.id) {", "if (0) {"),
    "the other direction is asked": (
        "return PC_ALLOWED(PC_RULE_NOT_ISOLATED);",
        "return PC_DENIED(PC_RULE_FAIL_CLOSED);",
    ),
    "another rule": (
        "return pc_verdict_of(word, service);",
        "return pc_verdict_of(word, service) ^ 1;",
    ),
}
"""What is wrong -> what stands in the C of cidr4, and what in its place."""

IN_HEADERS: dict[str, tuple[str, str, str]] = {
    "denied flows begin": (
        "policy_run.h",
        "if (!decision->allowed) {",
        "if (!decision->allowed && flow->action.entry_op == PC_ENTRY_RENEW) {",
    ),
    "only one end is asked": (
        "policy_run.h",
        "if (decision.allowed && flow->dst.ifindex)",
        "if (decision.allowed && flow->dst.ifindex && !flow->src.ifindex)",
    ),
    "a pod is asked about itself": (
        "policy_run.h",
        "if (flow->src.id && flow->src.id == flow->dst.id) {",
        "if (0) {",
    ),
    "a packet counts twice": ("policy_run.h", "count->packets += 1;", "count->packets += 2;"),
    "the packet is marked": (
        "policy_run.h",
        "decision = pc_decide(skb, flow);",
        "decision = pc_decide(skb, flow);\n\tskb->mark = decision.allowed;",
    ),
    "another flow is left": (
        "policy_run.h",
        "flow->action.reason = pc_conclude(flow, &decision);",
        "flow->tuple.dport = 0;\n\tflow->action.reason = pc_conclude(flow, &decision);",
    ),
    "the tables are changed": (
        "policy_run.h",
        "__u32 service = pc_service(flow);",
        "__u32 service = pc_service(flow);\n"
        "\tbpf_map_delete_elem(&pc_nodes, &service);",
    ),
    "a denied entry goes on": (
        "ct_decided.h", "__sync_fetch_and_or(&ct->state, PC_CT_DENIED);", "(void)0;"
    ),
    "a denied entry is decided": (
        "ct_decided.h",
        "__sync_fetch_and_and(&ct->state, ~PC_CT_NODE);",
        "__sync_fetch_and_and(&ct->state, ~PC_CT_NODE);\n\tct->decided = 3;",
    ),
    "rules change places": (
        "ct_decided.h",
        "ct->egress_rule = egress_rule;\n\tct->ingress_rule = ingress_rule;",
        "ct->egress_rule = ingress_rule;\n\tct->ingress_rule = egress_rule;",
    ),
    "SCTP is TCP": ("service_key.h", "return PC_SERVICE_OTHER << 16 | flow->tuple.proto;", "return 0;"),
    "all leaves allow": ("policy_words.h", "PC_ALLOW 0x40000000U", "PC_ALLOW 0x80000000U"),
}  # fmt: skip
"""What is wrong -> the header of runtime/datapath, what stands there, and what in its place."""

RESETS: dict[str, tuple[str, str]] = {
    "it resets what is allowed": ("!decision->allowed && pc_is_revoked", "pc_is_revoked"),
    "it resets what opens a connection": (" && !flow->packet.is_opening &&", " &&"),
    "it resets what the other end may have opened": (
        " && flow->opener != PC_OPENER_TRY_BOTH",
        "",
    ),
    "it resets what the policy does not know": ("rule != PC_RULE_FAIL_CLOSED", "rule != PC_RULES"),
    "it resets what is no connection": (
        "pc_has_opening(flow->tuple.proto)",
        "flow->tuple.proto != IPPROTO_UDP",
    ),
    "it resets another flow": (
        "bpf_tail_call(skb, &pc_on_revoked, 0);",
        "flow->tuple.dport = 0, bpf_tail_call(skb, &pc_on_revoked, 0);",
    ),
}
"""The claim -> what stands in policy_run.h, and what in its place. No verdict is another one."""

FIRST_PACKETS: dict[str, tuple[str, str, str]] = {
    "it forwards what is denied": (
        "policy_run.h",
        "\tif (decision->allowed && !flow->action.reason)\n\t\tpc_first_offer",
        "\tif (flow->action.reason != PC_DROP_CT_FULL)\n\t\tpc_first_offer",
    ),
    "it forwards what the other end may have opened": (
        "first_slot.h",
        "flow->opener == PC_OPENER_KNOWN",
        "flow->opener <= PC_OPENER_EITHER",
    ),
    "it forwards what is no first packet": (
        "first_slot.h",
        "flow->action.entry_op == PC_ENTRY_INSERT &&",
        "",
    ),
    "it forwards another flow": (
        "policy_run.h",
        "\t\tpc_first_offer(skb, flow);",
        "\t\t({ __be16 was = flow->tuple.dport; flow->tuple.dport = 0;"
        " pc_first_offer(skb, flow); flow->tuple.dport = was; });",
    ),
}
"""The claim -> the header, what stands there, and what in its place. No verdict is another one."""


def refutation(case: Made, code: bytes) -> str:
    """The first claim that does not hold, or why the program cannot be checked; "" if all hold."""
    try:
        failed = next(lemma_of(case, code).failed(), None)
    except UnmodelledError as unmodelled:
        return str(unmodelled)
    return failed.claim.what if failed else ""
