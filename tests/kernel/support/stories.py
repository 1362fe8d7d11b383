# SPDX-License-Identifier: Apache-2.0
"""How hypothesis gives random sequences to a kernel and a model: by seed, and many to one node."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.property.length import examples

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)
N_STORIES = examples(16, 2)
GIVEN_A_NODE = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
