# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML page: tables and excerpts, and a script for the matrix and the graph."""
