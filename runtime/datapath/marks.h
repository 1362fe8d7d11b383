/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* marks.h - the range of the marks by which hooks recognise our own packets.
 * Gives PC_MARKS, PC_MARKS_MASK.
 */
#pragma once

/* Every mark of ours except the tunnel's: docs/node.md reserves the whole range. */
#define PC_MARKS      0x70630000
#define PC_MARKS_MASK 0xffff0000
