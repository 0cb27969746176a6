# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a headless browser, used as a person would. Each test also looks for errors and requests (conftest.py)."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from made_trace import HOSTILE, write_trace


def range_of(page, chart="timeline"):
    place = page.locator(f"#{chart}-chart")
    return int(place.get_attribute("data-from")), int(place.get_attribute("data-to"))


def length(span):
    return span[1] - span[0]


@pytest.fixture
def page(look, recording):
    return look(recording("video-pageable"))


@pytest.mark.parametrize("name", ["exposed-copy", "speech-buffers", "video-pageable"])
def test_numbers_are_those_of_the_report(look, recording, name):
    file = recording(name)
    page = look(file)
    assert page.locator("#verdict").inner_text() == file.report["verdict"]["sentence"]
    for finding, shown in zip([each for each in file.report["findings"] if each["severity"] != "info"], page.locator(".finding:not(.info)").all()):
        text = shown.inner_text()
        assert finding["title"] in text and finding["fix"]["summary"] in text
        if finding["prediction"]:
            assert shown.locator(".predicted").first.inner_text().count(" ms") >= 3
        assert shown.locator(".evidence li").count() == len(finding["evidence"])
    (rank,) = file.report["ranks"]
    page.get_by_text("All causes of rank 0").click()
    rows = page.get_by_role("region", name="Causes, rank 0").locator("tbody tr").all()
    told = sorted(rank["attribution"], key=lambda row: -row["ns"])
    assert len(rows) == len(told)
    for row, entry in zip(rows, told):
        cells = row.locator("td, th").all_inner_texts()
        assert float(cells[3].strip("<%")) == pytest.approx(100 * entry["share"], abs=0.51)
    for text in file.data["report"]["limits"]:
        assert page.locator("#trust").get_by_text(text, exact=True).count() == 1


def test_mouse_zooms_and_moves_the_timeline(page):
    whole = range_of(page)
    chart = page.locator("#timeline-chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    across = lambda share: box["x"] + box["width"] * share  # noqa: E731
    y = box["y"] + 10
    page.mouse.move(across(0.4), y)
    page.mouse.down()
    page.mouse.move(across(0.6), y, steps=5)
    page.mouse.up()
    zoomed = range_of(page)
    assert length(zoomed) == pytest.approx(0.2 * length(whole), rel=0.05)
    assert zoomed[0] == pytest.approx(whole[0] + 0.4 * length(whole), abs=0.02 * length(whole))
    page.keyboard.down("Shift")
    page.mouse.move(across(0.5), y)
    page.mouse.down()
    page.mouse.move(across(0.7), y, steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    moved = range_of(page)
    assert moved[0] < zoomed[0] and length(moved) == pytest.approx(length(zoomed), rel=0.01)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    page.wait_for_function("before => document.querySelector('#timeline-chart').dataset.to - document.querySelector('#timeline-chart').dataset.from < before", arg=length(moved))
    chart.dblclick(position={"x": box["width"] / 2, "y": 10})
    assert range_of(page) == whole


def test_keys_zoom_move_and_choose(page):
    whole = range_of(page)
    page.locator("#timeline-chart").focus()
    page.keyboard.press("+")
    zoomed = range_of(page)
    assert length(zoomed) == pytest.approx(length(whole) / 2, rel=0.01)
    page.keyboard.press("ArrowRight")
    assert range_of(page)[0] > zoomed[0]
    page.keyboard.press("0")
    assert range_of(page) == whole
    page.keyboard.press("ArrowDown")
    page.keyboard.press("n")
    told = page.locator("#timeline .info").inner_text()
    assert "where the time goes" in told and "from" in told
    page.keyboard.press("Enter")
    assert length(range_of(page)) < length(whole)
    page.keyboard.press("Escape")
    assert page.locator("#timeline .info").inner_text() == ""


def test_buttons_zoom_and_move(page):
    whole = range_of(page)
    page.get_by_role("button", name="Zoom in: Timeline").click()
    zoomed = range_of(page)
    assert length(zoomed) < length(whole)
    page.get_by_role("button", name="Move to earlier: Timeline").click()
    assert range_of(page)[0] < zoomed[0]
    page.get_by_role("button", name="Show all: Timeline").click()
    assert range_of(page) == whole


def test_pointing_at_an_operation_names_it(look, recording):
    file = recording("video-pageable")
    page = look(file)
    chart = page.locator("#timeline-chart")
    chart.scroll_into_view_if_needed()
    chart.click(position={"x": chart.bounding_box()["width"] / 2, "y": 20 + 15 + 7})  # ruler, name of the first lane: steps
    view = file.data["views"][0]
    assert page.locator("#timeline .info").inner_text().startswith(f"step {view['begin_step']}: ")


def test_another_step_can_be_chosen(look, recording):
    file = recording("video-pageable")
    page = look(file)
    choice = page.get_by_label("Step", exact=True)
    titles = choice.locator("option").all_inner_texts()
    assert len(titles) == len(file.data["views"]) >= 4
    before = range_of(page)
    slowest = next(title for title in titles if "slowest" in title)
    choice.select_option(label=slowest)
    assert range_of(page) != before
    view = file.data["views"][titles.index(slowest)]
    assert range_of(page) == (view["begin_ns"], view["end_ns"])


def test_the_chart_of_steps_leads_to_the_timeline(page):
    chart = page.locator(".steps-chart")
    chart.focus()
    page.keyboard.press("PageDown")
    assert page.locator("#steps .info").inner_text().startswith("step 19: ")
    page.keyboard.press("PageUp")
    page.keyboard.press("Enter")
    chosen = page.locator("#timeline select option:checked").inner_text()
    assert chosen.startswith("step 0: ") and chosen.endswith("first")


def test_ranks_and_their_gpus_have_names(look, written, inject, workloads, run_dir):
    ranks = 2

    def train(rank):
        env = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "GWSIM_CONFIG": workloads / "data_parallel.conf"}
        return inject([workloads / "data_parallel"], env=env, sim=True)

    with ThreadPoolExecutor() as pool:
        for done in pool.map(train, range(ranks)):
            assert done.returncode == 0, done.stderr
    page = look(written(run_dir))
    labels = [f"rank {rank}, GPU {gpu}" for rank in range(ranks) for gpu in range(2)]
    assert [title.partition(" on ")[0].lower() for title in page.locator("#time h3").all_inner_texts()] == [each.lower() for each in labels]
    choice = page.get_by_label("Rank", exact=True).first
    assert sorted(choice.locator("option").all_inner_texts()) == sorted(labels)
    for label in labels:
        choice.select_option(label=label)
        assert page.locator(".steps-chart").get_attribute("aria-label").startswith(label)
    assert all(any(title.startswith(label) for title in page.locator("#timeline option").all_inner_texts()) for label in labels)


def test_search_finds_operations(page):
    page.locator("#timeline-search").fill("sync")
    found = page.locator("#timeline .found")
    number = int(found.inner_text().split()[0])
    assert number > 0
    page.keyboard.press("Enter")
    assert "sync" in page.locator("#timeline .info").inner_text().lower()
    page.locator("#timeline-search").fill("no such operation")
    assert found.inner_text().startswith("0 ")


def test_copy_puts_the_fix_on_the_clipboard(look, recording):
    file = recording("video-pageable")
    page = look(file, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the fix").first.click()
    page.locator(".copied", has_text="Copied").first.wait_for()  # the click does not wait for the clipboard
    fix = file.data["report"]["findings"][0]["fix"]
    assert page.evaluate("navigator.clipboard.readText()") == (fix["snippet"] or f"{fix['summary']} ({fix['location']})")


def test_names_of_a_hostile_trace_are_text(look, written, tmp_path):
    page = look(written(write_trace(tmp_path / "hostile.json", HOSTILE, 30, 10)))
    page.get_by_text("kernels that take most time").click()
    kernels = page.get_by_role("region", name="Kernels, rank 0").inner_text()
    assert "</script><script>alert(1)</script>" in kernels and "<svg onload=alert(3)>" in kernels
    assert page.locator("img, svg, iframe").count() == 0 and page.locator("script").count() == 3


def test_the_policy_stops_what_is_not_the_pages(browser, recording, tmp_path):
    """As if some text had become markup after all."""
    altered = tmp_path / "altered.html"
    added = "<script>document.title = 'broken into'</script><img src='https://example.com/x.png'><p style='color: red'>x</p></footer>"
    altered.write_text(recording("video-pageable").text.replace("</footer>", added))
    context = browser.new_context()
    page = context.new_page()
    refused = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(altered.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    assert page.title() != "broken into"
    assert all(any(kind in text for text in refused) for kind in ("script-src", "img-src", "style-src"))
    context.close()


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_and_light_follow_the_system(look, recording):
    page = look(recording("video-pageable"), color_scheme="dark")
    assert background(page) == "rgb(18, 22, 28)"
    page.emulate_media(color_scheme="light")
    assert background(page) == "rgb(255, 255, 255)"


def test_paper_is_white_and_has_no_controls(look, recording):
    page = look(recording("video-pageable"), color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert background(page) == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden() and page.locator(".toolbar").first.is_hidden()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert background(page) == "rgb(18, 22, 28)"


@pytest.mark.parametrize("name", ["exposed-copy", "jax-siren", "video-pageable"])
def test_a_phone_needs_no_sideways_scrolling(look, recording, name):
    page = look(recording(name), viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#timeline-chart").bounding_box()["width"] <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(look, recording, scheme):
    page = look(recording("exposed-copy"), color_scheme=scheme)
    from axe_playwright_python.sync_playwright import Axe

    results = Axe().run(page)
    assert not [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in results.response["violations"]]


def test_a_trace_of_100_mb_opens(look, written, tmp_path, record_property):
    trace = write_trace(tmp_path / "large.json", [f"kernel_{i}" for i in range(300)], 600, 450)
    began = time.monotonic()
    file = written(trace)
    analyzed = time.monotonic()
    page = look(file)
    opened = page.evaluate("performance.now()")
    words = f"{trace.stat().st_size / 1e6:.0f} MB of trace: {analyzed - began:.1f} s to analyze, page of {len(file.text) / 1e6:.2f} MB, ready in {opened:.0f} ms"
    print(words)
    record_property("large_trace", words)
    assert len(file.text) < 5e6
    assert length(range_of(page)) > 0
