#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Lays the top-level folders out as the namespace `policyc` under build/namespace, by links, for
# tools that resolve imports by path (mypy, ruff) and not by the installed finder.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/namespace/policyc
for part in grammar ir compiler backends verifier runtime; do
	ln -sfn "../../../$part" "build/namespace/policyc/$part"
done
