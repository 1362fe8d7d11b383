# SPDX-License-Identifier: Apache-2.0
"""ANTLR's lexer and parser for the grammars beside this folder: `make grammar` writes them."""
