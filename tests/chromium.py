"""A real browser for the tests of the review page: the Chromium of this machine, or the one that CHROMIUM names."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; see make test-integrations")

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATH = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
if PATH is None:
    pytest.skip("no Chromium on this machine; install one, or name it with CHROMIUM=PATH", allow_module_level=True)


@contextmanager
def started():
    """The browser, without a window."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=["--no-sandbox"])
        yield browser
        browser.close()
