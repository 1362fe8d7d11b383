# SPDX-License-Identifier: Apache-2.0
"""Files of observed flows: one module for each format, and the placing of their ends in a cluster."""
