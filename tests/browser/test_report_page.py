# SPDX-License-Identifier: Apache-2.0
"""The page of `policyc report` in a browser: accessible, for keyboards, quick, without a network."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.reports import make_reports
from tests.shared import made_once

pytestmark = pytest.mark.slow

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
NAMES = ("change", "symbolic", "set", "wrong", "hostile")
FRAMES = """async (act) => {
  const grid = document.querySelector(".scroller");
  const begun = performance.now();
  for (let at = 0; at < 10; at++) {
    grid.scrollTop += 97; grid.scrollLeft += 61;
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
  }
  return (performance.now() - begun) / 10;
}"""
FIRST = """() => {
  const data = new Data(JSON.parse(document.getElementById("data").textContent));
  const at = data.cells.findIndex((bits) => bits);
  return [Math.floor(at / data.n), at % data.n];
}"""


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "reports", make_reports)


def open_page(page: Page, folder: Path, name: str) -> None:
    page.goto((folder / f"{name}.html").as_uri())


def violations(page: Page) -> list[dict[str, Any]]:
    """What axe-core finds, by its rule and the first element."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run()")["violations"]
    return [{"rule": each["id"], "at": each["nodes"][0]["html"]} for each in found]


def open_first_cell(page: Page) -> None:
    """Move to the first cell with a region by arrow keys, and open it."""
    row, column = page.evaluate(FIRST)
    page.focus("[role=grid]")
    for key, count in (("ArrowDown", row), ("ArrowRight", column)):
        for _ in range(count):
            page.keyboard.press(key)
    page.keyboard.press("Enter")


@pytest.mark.parametrize("page", ["light"], indirect=True)
def test_the_keyboard_opens_a_cell(page: Page, reports: Path) -> None:
    open_page(page, reports, "change")
    open_first_cell(page)
    details = page.locator("#details")
    assert details.is_visible()
    assert "opened" in details.locator("h2").inner_text()
    assert "kind: NetworkPolicy" in details.inner_text()
    assert "replayed through the reference semantics" in details.inner_text()
    page.keyboard.press("Escape")
    assert details.is_hidden()
    assert page.evaluate("document.activeElement.getAttribute('role')") == "grid"


@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_no_violation(page: Page, reports: Path, name: str) -> None:
    open_page(page, reports, name)
    assert violations(page) == []
    button = page.locator("button.details")
    if button.count():
        button.first.click()
        assert violations(page) == []


def test_axe_finds_a_violation_that_is_made(page: Page, reports: Path) -> None:
    open_page(page, reports, "change")
    page.evaluate("document.querySelector('header').append(document.createElement('button'))")
    assert [each["rule"] for each in violations(page)] == ["button-name"]


def test_a_screen_reader_hears_the_active_cell(page: Page, reports: Path) -> None:
    open_page(page, reports, "change")
    row, column = page.evaluate(FIRST)
    open_first_cell(page)
    page.keyboard.press("Escape")
    grid = page.locator("[role=grid]")
    cell = page.locator(f"#{grid.get_attribute('aria-activedescendant')}")
    assert cell.get_attribute("role") == "gridcell"
    assert cell.get_attribute("aria-colindex") == str(column + 1)
    assert page.locator("[role=row]").first.get_attribute("aria-rowindex") == str(row + 1)
    assert "opened" in (cell.text_content() or "")


def test_the_filter_leaves_the_ends_that_match(page: Page, reports: Path) -> None:
    open_page(page, reports, "change")
    n_ends = page.evaluate("new Data(JSON.parse(document.getElementById('data').textContent)).n")
    page.fill("#filter-to", "ledger")
    grid = page.locator("[role=grid]")
    assert grid.get_attribute("aria-rowcount") == str(n_ends)
    assert grid.get_attribute("aria-colcount") == "1"
    page.fill("#filter-from", "no such end")
    assert "no end matches" in page.locator("#matrix .under").inner_text()
    assert page.locator("#regions tbody tr:visible").count() == 0


def test_a_kind_of_change_can_be_hidden(page: Page, reports: Path) -> None:
    open_page(page, reports, "change")
    rows = page.locator("#regions tbody tr:visible")
    n_all, n_latent = rows.count(), page.locator("#regions tr[data-state=latent]").count()
    page.get_by_label("latent").uncheck()
    assert n_latent > 0
    assert rows.count() == n_all - n_latent


def test_hostile_names_run_nothing(page: Page, reports: Path) -> None:
    open_page(page, reports, "hostile")
    page.locator("button.details").first.click()
    assert page.locator("img").count() == 0
    assert "<img src=x" in page.locator("#details").inner_text()


def test_a_possible_change_is_marked_everywhere(page: Page, reports: Path) -> None:
    open_page(page, reports, "hostile")
    assert page.locator(".alert").is_visible()
    assert page.locator("#regions tr[data-certain=no] .badge.undecided").count() == 1
    assert page.get_by_label("undecided").count() == 1


def test_a_matrix_of_500_ends_scrolls_and_zooms_at_once(page: Page, reports: Path) -> None:
    open_page(page, reports, "large")
    n_rows = page.locator("[role=grid]").get_attribute("aria-rowcount")
    assert n_rows == "501"  # and every other end
    for _ in range(4):
        page.get_by_role("button", name="Zoom in").first.click()
    assert page.evaluate(FRAMES, None) < 150  # ms for a step of scrolling, without a GPU
    begun = page.evaluate("performance.now()")
    page.fill("#filter-from", "pod-49")
    assert page.evaluate("performance.now()") - begun < 3000


def test_the_graph_shows_the_pairs_of_the_matrix(page: Page, reports: Path) -> None:
    open_page(page, reports, "change")
    said = page.locator("#graph .under").inner_text()
    assert "Click an arrow" in said
    assert page.locator("#graph canvas").count() > 0
    open_page(page, reports, "large")
    assert "Too many pairs" in page.locator("#graph .under").inner_text()


def test_without_scripts_the_tables_say_all(browser: Browser, reports: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto((reports / "change.html").as_uri())
    assert plain.locator("#regions tbody tr").count() > 0
    assert "needs JavaScript" in plain.locator("#matrix").inner_text()
    plain.locator("#regions a.rule").first.click()
    assert "#rule-" in plain.url
    context.close()


def test_the_button_changes_the_theme(page: Page, reports: Path) -> None:
    open_page(page, reports, "change")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    assert violations(page) == []
