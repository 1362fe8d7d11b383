# SPDX-License-Identifier: Apache-2.0
"""From a Policy IR to a Policy IR that means the same, or what the pass says."""
