# SPDX-License-Identifier: Apache-2.0
"""One attack, or one family of attacks, a file: each against a loaded datapath. They need root."""
