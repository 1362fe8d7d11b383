# SPDX-License-Identifier: Apache-2.0
"""The results of the verifier's commands, as typed values. `backends/report` shows them."""
