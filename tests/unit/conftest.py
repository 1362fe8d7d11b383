# SPDX-License-Identifier: Apache-2.0
"""Property tests among the unit tests: no time limit an example, as the first one imports ANTLR."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unit", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("unit")
