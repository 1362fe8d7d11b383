# SPDX-License-Identifier: Apache-2.0
"""Whether a lab left anything on the machine, while other tests have labs of their own."""

import time
from collections.abc import Collection

from policyc.runtime.lab.namespaces import stale_labs


def nothing_is_left_since(before: Collection[str], seconds: float = 30) -> bool:
    """Whether no lab became stale since `before` was read from `stale_labs`.

    A test beside this one may have killed a lab of its own and be about to clean up after it, so
    what is there is given a while to go; what a lab forgot stays.
    """
    until = time.monotonic() + seconds
    while set(stale_labs()) - set(before):
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True
