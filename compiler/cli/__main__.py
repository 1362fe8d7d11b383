# SPDX-License-Identifier: Apache-2.0
"""`python -m policyc.compiler.cli`: the command line without its entry point."""

from policyc.compiler.cli.main import main

main()
