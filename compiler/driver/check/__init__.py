# SPDX-License-Identifier: Apache-2.0
"""`policyc check`: rules without effect, probable mistakes, their severities and suppressions."""
