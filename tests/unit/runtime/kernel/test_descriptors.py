# SPDX-License-Identifier: Apache-2.0
"""File descriptors: the soft limit is raised as needed, and a low hard limit is reported."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import descriptors


@pytest.fixture(autouse=True)
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_sufficient_limit_is_not_changed() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors.make_room(1, "tests")
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_a_low_soft_limit_is_raised_as_needed(limits: tuple[int, int]) -> None:
    n_open = sum(1 for _ in Path("/proc/self/fd").iterdir())
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (n_open + 8, hard))
    descriptors.make_room(100, "tests")
    soft, still = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert n_open + 100 <= soft <= n_open + 200 and still == hard


def test_a_hard_limit_that_is_too_low_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: a process that lowers its own hard limit cannot raise it again."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (64, 128))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: pytest.fail("it was changed"))
    with pytest.raises(
        HostError, match=r"tests need \d+ open files, and the limit is 128"
    ) as error:
        descriptors.make_room(1000, "tests")
    assert "LimitNOFILE=" in error.value.hint
