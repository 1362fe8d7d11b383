# SPDX-License-Identifier: Apache-2.0
"""The Policy IR written as objects of a policy API, one module a target. `policyc convert` uses it.

A target takes a PolicySet and gives objects, or says which rules it cannot express and why. It is not
trusted: what it writes is read back and proved to mean the same.
"""
