# SPDX-License-Identifier: Apache-2.0
"""Native evaluation of many flows at once, and the expectations of the lab."""
