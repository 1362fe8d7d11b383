# SPDX-License-Identifier: Apache-2.0
"""Commands that prove: bundles (`prove`) and intents (`verify`)."""
