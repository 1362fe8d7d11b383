/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* steps.h - what is left to do with a packet that a stage neither passes nor drops.
 * Gives enum pc_step. A hook is a row of stages, and each stage returns an int: PC_PASS, an enum
 * drop_reason, or a step.
 */
#pragma once
#include "drops.h"

/* Steps are negative, so they equal no reason. */
enum pc_step {
	/* For the end of a hook, which calls a function of the header in the comment. A hook that
	 * does not handle the step drops the packet; the step is minus the reason for that.
	 */
	PC_STEP_REASSEMBLE = -PC_DROP_FRAGMENT,    /* reassembly.h */
	PC_STEP_HAIRPIN = -PC_DROP_HAIRPIN,        /* hairpin.h: back to its sender */
	PC_STEP_ROUTE_BACK = -PC_DROP_NODE_ANSWER, /* route_back.h: to the node */
	PC_STEP_REJECT = -PC_DROP_NO_BACKEND,      /* service_reject.h: a reset, or an ICMP error */
	PC_STEP_TELL_SIZE = -PC_DROP_TOO_BIG,     /* service_reject.h: an ICMP error with the MTU */
	PC_STEP_OTHER_UPLINK = -PC_DROP_NO_ROUTE, /* link_forward.h: it comes in by that one */
	PC_STEP_TUNNEL = -PC_DROP_NOT_A_NODE, /* tunnel_unwrap.h: it goes on as from the tunnel */
	/* For the next stage of the same hook. */
	PC_STEP_NEW = -PC_DROP_REASONS - 1,    /* no usable entry: the packet opens a connection */
	PC_STEP_DECIDE = -PC_DROP_REASONS - 2, /* the policy program decides */
	PC_STEP_OTHER = -PC_DROP_REASONS - 3,  /* this stage does not handle such packets */
	PC_STEP_LAST = -PC_DROP_REASONS - 4
};
