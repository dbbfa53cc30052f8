"""Does the report work in a real browser: drawn, quiet, offline, clickable, harmless?"""

import json
from pathlib import Path
from typing import Any

import pytest

import tracelens
from tracelens.simulate import simulate, write

SIMULATED = ("S02", "S13", "S17", "S34", "unfused_attention")
SHARED = (
    "nsight/h100_2gpu_nccl_2026.2.sqlite",
    "nsight/rtx3060_graph_mode_2025.5.sqlite",
    "nsight/a100_gemm_sweep_2023.4.sqlite",
)
HOSTILE = """</script><script>window.hurt = 1</script><img src=x onerror="window.hurt=2">'"`${1}"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Write the report of a scenario, once."""
    folder = tmp_path_factory.mktemp("reports")
    made: dict[str, Path] = {}

    def report(scenario: str) -> Path:
        if scenario not in made:
            *traces, _ = write(simulate(scenario), folder / scenario, "kineto")
            made[scenario] = folder / f"{scenario}.html"
            with tracelens.attribute(traces, gpu_hour_price=2.0) as run:
                run.save_html(made[scenario])
        return made[scenario]

    return report


def check(browser: Any, path: Path) -> None:
    """A page that is drawn, says nothing on the console, asks for nothing and fits the screen."""
    for width in (1280, 390):
        browser.open(path, width)
        assert browser.problems == []
        assert browser.requests == [path.resolve().as_uri()]
        assert browser.run("document.documentElement.scrollWidth") == width
    assert path.stat().st_size < 3_000_000


@pytest.mark.parametrize("scenario", SIMULATED)
def test_a_simulated_run(browser: Any, reports: Any, scenario: str) -> None:
    check(browser, reports(scenario))


@pytest.mark.parametrize("name", SHARED)
def test_a_real_trace(browser: Any, shared: Path, tmp_path: Path, name: str) -> None:
    with tracelens.attribute(shared / "traces" / name) as run:
        run.save_html(tmp_path / "report.html")

    check(browser, tmp_path / "report.html")


def visible(browser: Any) -> list[str]:
    return browser.run(
        "[...document.querySelectorAll('#loss-table tr[data-loss]')]"
        ".filter((row) => !row.hidden).map((row) => row.dataset.loss)"
    )


def test_a_bar_leads_to_its_losses_and_to_their_evidence(browser: Any, reports: Any) -> None:
    browser.open(reports("S02"))
    everything = visible(browser)
    # The bar as it is drawn: a click into its middle, wherever plotly put it.
    browser.run("document.getElementById('waterfall-title').scrollIntoView()")
    bar = (
        "(() => { const box = document.querySelectorAll("
        "'#tracelens-waterfall .bars .point path')[1].getBoundingClientRect();"
        " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    browser.click(*browser.run(bar))

    assert browser.run("document.getElementById('drill').hidden") is False
    assert browser.run("document.getElementById('drill-title').textContent").startswith("idle")
    chosen = visible(browser)
    assert chosen
    assert set(chosen) < set(everything)
    assert {loss.split(".")[0] for loss in chosen} <= {"gap", "host", "idle"}

    browser.run("document.querySelector('#drill-parts button').click()")
    assert browser.run("document.activeElement.dataset.loss") == "host.dispatch"
    assert browser.run("document.activeElement.querySelector('details').open") is True

    browser.press("Escape")
    assert visible(browser) == everything


def test_keys_do_what_the_mouse_does(browser: Any, reports: Any) -> None:
    # On a narrow screen the waterfall is a list of buttons.
    browser.open(reports("S02"), 390)
    browser.run("document.querySelector('#waterfall-plain [data-item=idle]').focus()")
    browser.press("Enter")

    assert {loss.split(".")[0] for loss in visible(browser)} <= {"gap", "host", "idle"}


def test_filters(browser: Any, reports: Any) -> None:
    browser.open(reports("S02"))
    everything = visible(browser)
    type_ = (
        "(() => {{ const box = document.getElementById('{}'); box.value = '{}';"
        " box.dispatchEvent(new Event('{}')); }})()"
    )

    browser.run(type_.format("loss-search", "dispatch", "input"))
    assert "host.dispatch" in visible(browser)
    assert len(visible(browser)) < len(everything)

    browser.run("document.getElementById('show-all').click()")
    assert visible(browser) == everything

    browser.run(type_.format("loss-grade", "medium", "change"))
    grades = (
        "[...document.querySelectorAll('#loss-table tr[data-loss]')]"
        ".filter((row) => !row.hidden).map((row) => row.dataset.grade)"
    )
    assert set(browser.run(grades)) <= {"medium", "high"}


def test_tables_sort_and_pivots_turn(browser: Any, reports: Any) -> None:
    browser.open(reports("S13"))
    counts = (
        "[...document.querySelectorAll('table.sortable tbody tr')]"
        ".map((row) => Number(row.cells[2].dataset.value))"
    )
    browser.run("document.querySelectorAll('table.sortable .sort')[2].click()")
    assert browser.run(counts) == sorted(browser.run(counts), reverse=True)

    browser.run("document.querySelector('[aria-controls=pivot-step]').click()")
    assert browser.run("document.getElementById('pivot-rank').hidden") is True
    assert browser.run("document.getElementById('pivot-step').offsetHeight") > 0


def test_the_timeline_zooms_to_the_worst_interval(browser: Any, reports: Any) -> None:
    browser.open(reports("S02"))
    before = browser.run("document.getElementById('timeline').toDataURL().length")
    browser.run("document.querySelector('.worst [data-start]').click()")
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    assert browser.run("document.getElementById('timeline').toDataURL().length") != before
    words = browser.run("document.getElementById('timeline-at').textContent")
    assert words.startswith("charged to: ")
    assert " s in Perfetto" in words


def test_names_do_no_harm(browser: Any, tmp_path: Path) -> None:
    trace = tmp_path / "names.json"
    events: list[dict[str, Any]] = []
    long = HOSTILE + "<b>" * 1_000_000
    for index in range(40):
        name = (HOSTILE, long, "gemm " + HOSTILE)[index % 3]
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
        kernel = {"cat": "kernel", "name": name, "pid": 0, "tid": 7}
        args = {"correlation": index + 1, "device": 0, "stream": 7}
        events.append({"ph": "X", "ts": 100 * index, "dur": 5, "args": args, **launch})
        events.append({"ph": "X", "ts": 100 * index + 10, "dur": 50, "args": args, **kernel})
    trace.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    with tracelens.attribute(trace) as run:
        run.save_html(tmp_path / "report.html")

    check(browser, tmp_path / "report.html")
    assert browser.run("window.hurt === undefined") is True
    assert browser.run("document.querySelectorAll('img').length") == 0


def test_a_hundred_thousand_intervals_stay_fluid(
    browser: Any, reports: Any, tmp_path: Path
) -> None:
    # A page that was written with few intervals is given many, in its own format.
    text = reports("S02").read_text(encoding="utf-8")
    head, rest = text.split('id="tracelens-timeline">', 1)
    body, tail = rest.split("</script>", 1)
    step = json.loads(body)
    count = 100_000
    lane = {
        "title": "charged to",
        "gap": [step["total_ns"] // count - 200] * count,
        "dur": [200] * count,
        **{column: [0] * count for column in ("name", "color", "stream", "correlation")},
    }
    step["lanes"] = [lane]
    path = tmp_path / "many.html"
    path.write_text(f'{head}id="tracelens-timeline">{json.dumps(step)}</script>{tail}', "utf-8")
    browser.open(path)

    # Zooming by keys: a frame each; the mean of 20 has to stay below that of 20 frames a second.
    seconds = browser.run(
        "(async () => { const canvas = document.getElementById('timeline');"
        " const frame = () => new Promise((done) => requestAnimationFrame(done));"
        " await frame(); const start = performance.now();"
        " for (let i = 0; i < 20; i++) { canvas.dispatchEvent(new KeyboardEvent('keydown',"
        " { key: i % 2 ? '-' : '+', cancelable: true })); await frame(); }"
        " return (performance.now() - start) / 20e3; })()"
    )
    assert seconds < 0.05


CONTRAST = """
(() => {
  const rgba = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (item) => {
    for (let at = item; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const texts = [...document.querySelectorAll("body *")].filter((item) =>
    item.getClientRects().length && !item.closest("svg, .js-plotly-plot") &&
    [...item.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));
  const poor = texts.map((item) => {
    const [a, b] = [light(rgba(getComputedStyle(item).color)), light(ground(item))].sort();
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), item.tagName + "." + item.className];
  }).filter(([ratio]) => ratio < 4.5);
  return { count: texts.length, poor: poor.map(([ratio, name]) => `${name} ${ratio.toFixed(2)}`) };
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser: Any, reports: Any, scheme: str) -> None:
    """Contrast of all text against its ground: at least 4.5, as WCAG 2.1 asks (1.4.3)."""
    scheme_is = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", media="screen", features=scheme_is)
    browser.open(reports("S13"))
    browser.run('document.querySelectorAll("details").forEach((more) => { more.open = true; })')
    found = browser.run(CONTRAST)
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    assert found["count"] > 200
    assert found["poor"] == []


def test_a_printed_page_is_not_cut(browser: Any, reports: Any) -> None:
    """A4 with the margins of a browser is 718 pixels wide; nothing that shows may stand out."""
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    browser.open(reports("S13"), 718)
    browser.run('dispatchEvent(new Event("beforeprint"))')
    out = browser.run(
        "[...document.querySelectorAll('main *')].filter((item) => item.getClientRects().length"
        " && getComputedStyle(item).position !== 'absolute' && !item.closest('thead')"
        " && item.getBoundingClientRect().right > 719).map((item) => item.outerHTML.slice(0, 80))"
    )
    opened = browser.run("document.querySelectorAll('.actions details[open]').length")
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    assert out == []
    assert opened > 0
