# SPDX-License-Identifier: Apache-2.0
"""Reports of findings for people and machines: text and JSON."""
