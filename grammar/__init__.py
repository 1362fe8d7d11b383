# SPDX-License-Identifier: Apache-2.0
"""ANTLR 4 grammars and their generated parsers: selector expressions, rule blocks, intents."""
