# SPDX-License-Identifier: Apache-2.0
"""BPF bytecode: objects, instructions, and what they do, over numbers or over terms."""
