# SPDX-License-Identifier: Apache-2.0
"""What the verifier's commands answer, as typed values; `backends/report` shows them."""
