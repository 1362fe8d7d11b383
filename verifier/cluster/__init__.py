# SPDX-License-Identifier: Apache-2.0
"""Exact answers about the flows between the ends of a given cluster: bit sets over atoms.

`reads` collects what rules read, `sites` makes the ends concrete, and `space` numbers the classes of
ends and addresses. `rows` compiles rules to bit sets, `outcomes` decides them, and the other modules
query the result.
"""
