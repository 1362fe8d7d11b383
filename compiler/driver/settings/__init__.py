# SPDX-License-Identifier: Apache-2.0
"""The configuration file of a repository: .policyc.yaml."""
