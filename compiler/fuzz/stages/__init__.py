# SPDX-License-Identifier: Apache-2.0
"""The stages of the chain as engines: each gives the verdict at one end of a flow, and the rule."""
