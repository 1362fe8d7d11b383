# SPDX-License-Identifier: Apache-2.0
"""Wrong compilers: faults in C, objects and seeds, what refutes them, packets that show them."""
