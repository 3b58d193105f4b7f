"""A real browser for the tests of the review page: the Chromium of this machine, or the one that CHROMIUM names."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager

import pytest
from waiting import HANG

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed; see make test-integrations"
)

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATH = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
if PATH is None:
    pytest.skip(
        "no Chromium on this machine; install one, or name it with CHROMIUM=PATH",
        allow_module_level=True,
    )


TIMEOUT = 1000 * HANG  # milliseconds
expect = sync_api.expect
expect.set_options(timeout=TIMEOUT)


@contextmanager
def started():
    """The browser, without a window."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=PATH, args=["--no-sandbox"], timeout=TIMEOUT
        )
        yield browser
        browser.close()


# A browser may show a view some time after its address has changed. Here it always does, so that a test that does not
# wait for the view fails on every machine and not only on a busy one.
SLOW = """
const listen = window.addEventListener.bind(window);
window.addEventListener = (name, act, ...more) =>
  listen(name, name === "hashchange" ? (event) => setTimeout(() => act(event), 200) : act, ...more);
"""


def new_page(browser, **options):
    """A page in a context of its own, with what the page logs and its errors."""
    context = browser.new_context(**options)
    context.set_default_timeout(TIMEOUT)
    context.add_init_script(SLOW)
    page, problems = context.new_page(), []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    return page, problems


def shown(page, view):
    """Wait until the page has drawn a view."""
    page.wait_for_selector(f"main[data-view={view}]")


def show(page, view):
    """Open a view by its address."""
    page.goto(f"{page.url.split('#')[0]}#{view}")
    shown(page, view)


def cells(page, name, kinds="td"):
    """The texts of the cells of the one table row that contains a name."""
    row = page.locator("tr", has_text=name)
    expect(row).to_have_count(1)
    return row.locator(kinds).all_inner_texts()


def status(page, start):
    """Wait until the status line of the view starts with some words."""
    expect(page.locator("main [role=status]").first).to_have_text(re.compile(f"^{start}"))
