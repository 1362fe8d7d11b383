# SPDX-License-Identifier: Apache-2.0
"""The stages in order, and the bundle they produce."""
