# SPDX-License-Identifier: Apache-2.0
"""How long the property tests look: a slice for every run, more under `make test-all`."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "slice", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("slice")
