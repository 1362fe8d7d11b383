# SPDX-License-Identifier: Apache-2.0
"""Steps in a child process, mostly ones that end in the middle, as by SIGKILL: nothing is undone.

A child never leaves its step. One that returned to pytest would run the rest of the suite beside its
parent, and report tests that the parent runs, too.
"""

import os
import traceback
from collections.abc import Callable


def die(*_: object, **__: object) -> None:
    """To be put in the place of what comes next."""
    os.kill(os.getpid(), 9)


def forked(step: Callable[[], object]) -> int:
    """The process id of a child. Its exit code is what the step returns, or 1 for an error."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            found = step()
            code = found if isinstance(found, int) else 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def killed(step: Callable[[], object]) -> None:
    """Run a step in a child, which is to die by SIGKILL."""
    _, how = os.waitpid(forked(step), 0)
    assert os.WIFSIGNALED(how)
