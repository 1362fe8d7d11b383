# SPDX-License-Identifier: Apache-2.0
"""Loading a bundle, replacing the one before, and unloading."""
