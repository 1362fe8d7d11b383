# SPDX-License-Identifier: Apache-2.0
"""Learn: policies that allow what was observed."""
