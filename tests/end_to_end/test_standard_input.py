# SPDX-License-Identifier: Apache-2.0
"""`-f - --cluster -` reads standard input once, for policies and cluster."""

import pytest

from tests.end_to_end.process import policyc

BOTH = """\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: db, image: db}]}
status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}
"""
