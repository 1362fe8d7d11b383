# SPDX-License-Identifier: Apache-2.0
"""The Policy IR written as objects of a policy API, one module per target, for `policyc convert`.

A target takes a PolicySet and gives objects, or names the rules that it cannot express and the reason. A
target is not trusted: its output is read back and proved to mean the same.
"""
