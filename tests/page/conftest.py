# SPDX-License-Identifier: Apache-2.0
"""A headless browser for pages of the HTML report, which looks for whatever such a file must not do."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recorded_trace import unpack

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "build/browser"
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


class Written:
    """One file of --html, with the JSON report of the same analysis."""

    def __init__(self, gpuwatch, trace, path, *options):
        command = [gpuwatch, "analyze", trace, "--json", "--html", path, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        self.path, self.report = path, json.loads(done.stdout)
        self.text = path.read_text()
        (data,) = DATA.findall(self.text)
        self.data = json.loads(data)


@pytest.fixture(scope="session")
def written(gpuwatch, tmp_path_factory):
    """written(trace, *options) -> Written"""
    return lambda trace, *options: Written(gpuwatch, trace, tmp_path_factory.mktemp("page") / "report.html", *options)


@pytest.fixture(scope="session")
def recording(written, tmp_path_factory):
    """recording(name) -> Written, of a trace that was recorded on a GPU"""
    known = {}

    def read(name):
        if name not in known:
            known[name] = written(unpack(name, tmp_path_factory.mktemp(name)))
        return known[name]

    return read


@pytest.fixture(scope="session")
def browser():
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None or not PACKAGES.is_dir():
        pytest.skip("no browser to look at pages with: run scripts/browser.sh")
    sys.path.insert(0, str(PACKAGES))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its sandbox needs rights that root in a container does not have. The pages are our own.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def look(browser):
    """look(Written or path, **context) -> page, ready. At the end: it asked for nothing but itself, and reported no error."""
    contexts, wrong = [], []

    def look(page_file, **options):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        address = Path(getattr(page_file, "path", page_file)).as_uri()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: request.url.split("#")[0] == address or wrong.append(f"request: {request.url}"))
        page.goto(address)
        page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=20000)
        return page

    yield look
    for context in contexts:
        context.close()
    assert not wrong
