# SPDX-License-Identifier: Apache-2.0
"""The stages of the chain as engines that answer: what does one end of a flow say, and by which rule?"""
