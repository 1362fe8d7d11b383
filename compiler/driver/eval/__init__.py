# SPDX-License-Identifier: Apache-2.0
"""Many flows at once by compiled code, and what the lab expects."""
