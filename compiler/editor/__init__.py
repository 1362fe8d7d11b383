# SPDX-License-Identifier: Apache-2.0
"""The language server: policies as an editor shows them."""
