# SPDX-License-Identifier: Apache-2.0
"""BPF bytecode: objects, instructions, and their execution, over numbers or over terms."""
