# SPDX-License-Identifier: Apache-2.0
"""One module for each output format; each registers how it shows the types of results."""
