# SPDX-License-Identifier: Apache-2.0
"""One module per output format; each registers how it shows the types of results."""
