# SPDX-License-Identifier: Apache-2.0
"""Options of the whole suite, and where kernel tests may be left out."""

import os

import pytest

from tests import rerun


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files with what is made now"
    )
    parser.addoption(
        rerun.OPTION,
        action="store_true",
        help=f"run a failed test that is marked {rerun.MARK} once more, alone",
    )


def pytest_configure(config: pytest.Config) -> None:
    rerun.register(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without root the kernel tests are skipped, and say so; with root they run, and fail if need be.

    Slow tests have an hour each.
    """
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("kernel"):
                item.add_marker(pytest.mark.skip(reason="loading BPF needs root"))
