# SPDX-License-Identifier: Apache-2.0
"""Rules that change nothing, and rules that their author probably did not mean."""
