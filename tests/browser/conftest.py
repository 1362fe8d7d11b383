# SPDX-License-Identifier: Apache-2.0
"""One headless Chromium for the tests of a worker, without a network."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
"""Debian's package."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(params=["light", "dark"])
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page that may load files only; a message on its console or an error fails the test."""
    context = browser.new_context(
        color_scheme=request.param, viewport={"width": 1400, "height": 900}, offline=True
    )
    said: list[str] = []
    made = context.new_page()
    made.on("console", lambda message: said.append(message.text))
    made.on("pageerror", lambda error: said.append(str(error)))
    made.on("request", lambda asked: said.append(asked.url) if asked.url[:5] != "file:" else None)
    yield made
    context.close()
    assert not said
