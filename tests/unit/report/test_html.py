import base64
import csv
import gzip
import io
import json
import re

import pyarrow.parquet as pq
import pytest
from plotly.offline import get_plotlyjs_version

from tracelens.report import document, save_html, waterfall_figure
from tracelens.report.downloads import downloads
from tracelens.report.figure import DIV_ID


@pytest.fixture
def page(example, tmp_path) -> str:
    path = tmp_path / "report.html"
    save_html(document(example), example, path)
    return path.read_text(encoding="utf-8")


def script(page: str, name: str) -> str:
    return re.search(rf'<script[^>]* id="{name}">(.*?)</script>', page, re.DOTALL)[1]


def test_the_page_loads_nothing(page):
    assert re.search(r"https?://|\bsrc\s*=|<link|@import|url\(|\bfetch\(", page) is None
    assert "default-src 'none'" in page


def test_the_page_is_small_and_stable(page, example, tmp_path):
    again = tmp_path / "again.html"
    save_html(document(example), example, again)

    assert len(page.encode()) < 3_000_000
    assert again.read_text(encoding="utf-8") == page


def test_the_bundle_of_plotly_is_inside_and_in_step_with_the_library(page):
    packed = base64.b64decode(script(page, "tracelens-plotly"))

    text = gzip.decompress(packed).decode()
    major = get_plotlyjs_version().split(".")[0]
    assert re.match(rf"\s*/\*\*\s*\* plotly.js \(basic - minified\) v{major}\.\d+", text)
    assert "Licensed under the MIT license" in text


def test_names_of_kernels_are_text(page):
    assert "<script>alert(1)" not in page
    assert "evil\\x1b[31m&lt;/script&gt;&lt;script&gt;alert(1)" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_labels_cannot_leave_the_figure(example, tmp_path):
    answer = document(example)
    answer["waterfall"][1]["label"] = "</script><img onerror=alert(1)>&"
    path = tmp_path / "report.html"

    save_html(answer, example, path)

    text = path.read_text(encoding="utf-8")
    assert "<img" not in text
    figure = json.loads(script(text, "tracelens-figures"))[DIV_ID]
    ticks = figure["layout"]["yaxis"]["ticktext"]
    assert ticks[1] == "&lt;/script&gt;&lt;img onerror=alert(1)&gt;&amp;"
    assert "\\u0026lt;/script\\u0026gt;" in script(text, "tracelens-figures")


def test_the_page_shows_the_figures_of_the_answer(page):
    text = re.sub(r"\s+", " ", re.sub(r"<script.*?</script>|<[^>]+>", " ", page, flags=re.DOTALL))

    assert "MFU of the replica 42.5 %" in text
    assert "FLOPs reconcile 0.0 pt" in text
    assert (
        "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT gemm 30 3,000,000,000 50.0 % 722 73.0 %" in text
    )
    assert "dp reduce_scatter 67,108,864 12 182 570 ms 150 ms 420 ms" in text
    assert "12.345678 s in Perfetto · rank 0 · stream 7" in text
    assert "6: last marked step has no successor" in text
    assert "989.0 TFLOP/s bf16, nominal, NVIDIA H100 80GB HBM3; source: data sheet, dense" in text
    assert "cut: 3, first at 99" in text
    assert "recorded with shapes" in text


def test_without_scripts_the_waterfall_is_complete(page):
    plain = re.search(r'<ol class="waterfall".*?</ol>', page, re.DOTALL)[0]

    assert re.findall(r'<span class="num">([^<]+)</span>', plain) == [
        "100.0",
        "−12.5",
        "−0.5",
        "−9.5",
        "−13.5",
        "−19.8",
        "−4.2",
        "−0.5",
        "+3.0",
        "42.5",
    ]
    assert "left:42.5%;width:12.5%" not in plain
    assert "left:87.5%;width:12.5%" in plain


def test_a_page_without_flops(make_store, time_only, tmp_path):
    store = make_store(ranks=1, sections=time_only)
    path = tmp_path / "report.html"

    save_html(document(store), store, path)

    text = path.read_text(encoding="utf-8")
    assert '<dd class="unknown">unknown</dd>' in text
    assert "FLOP-bearing time" in text
    assert "Communication was not analyzed." in text
    assert "<title>MFU unknown · " in text
    assert "give: <code>--gpu NAME, --model NAME," in text


def test_a_bound_and_an_idle_option_are_explained(example, tmp_path):
    answer = document(example)
    answer["mfu"] |= {"value": None, "low": 0.382, "reason": "a tenth has no shapes"}
    answer["workload"]["option_notes"] = ["--convention full has no effect: <why>"]

    page = _page(answer, example, tmp_path)

    assert "<dd>≥ 38.2 %</dd>" in page
    assert '<p class="reason">a tenth has no shapes</p>' in page
    assert '<p class="note">--convention full has no effect: &lt;why&gt;</p>' in page


def test_the_gain_of_a_repair_is_shown_once_it_is_known(example, tmp_path):
    answer = document(example)
    assert '<td class="num gain">4.1</td>' not in _page(answer, example, tmp_path)

    answer["losses"][0]["recoverable_points"] = 4.1

    assert '<td class="num gain">4.1</td>' in _page(answer, example, tmp_path)


def test_the_price_of_a_loss(example, tmp_path):
    assert "Cost a day" not in _page(document(example), example, tmp_path)
    example.put_result("price", {"gpu_hour_price": 2.5})
    answer = document(example)

    page = _page(answer, example, tmp_path)

    # Eight GPUs are 192 GPU-hours a day; dispatch is 4 points of them.
    dispatch = next(row for row in answer["losses"] if row["id"] == "host.dispatch")
    assert answer["cost"] == {
        "gpu_hours_per_day": 192.0,
        "money_per_day": 480.0,
        "gpu_hour_price": 2.5,
    }
    assert dispatch["gpu_hours_per_day"] == pytest.approx(7.68)
    assert dispatch["money_per_day"] == pytest.approx(19.2)
    assert "7.7 GPU-h<small>money 19.20</small>" in page


def test_the_first_screen_says_what_to_do(page):
    first = page.split('id="waterfall-title"')[0]

    assert first.index("Matmuls run below peak") < first.index("Gradient communication is exposed")
    assert "check SM clock, power cap and tile-friendly shapes" in first
    assert "together reach 73 % of peak" in first


def test_a_healthy_run_says_so_on_the_first_screen(example, tmp_path):
    answer = document(example)
    answer |= {"advice": [], "health": {"ok": True, "text": "healthy: nothing to mend"}}

    assert '<p class="health ok">Healthy: nothing to mend.</p>' in _page(answer, example, tmp_path)


def test_evidence_can_be_found_in_the_viewer(page):
    row = page.split('data-loss="host.dataloader"')[1].split("</table>")[0]

    assert "s in Perfetto</b></td>" in row
    cells = re.findall(r'<td class="num">([^<]*)</td>', row.split('class="instances"')[1])
    assert cells[:4] == ["0", "0", "7", cells[3]]
    assert int(cells[3]) >= 1000


def test_one_step_is_there_as_it_ran(example, page):
    step = json.loads(script(page, "tracelens-timeline"))

    assert (step["rank"], step["step"], step["left_out"]) == (0, 4, 0)
    assert step["total_ns"] == 1_000_000_000
    assert step["offset_ns"] == "13345678901"
    assert [lane["title"] for lane in step["lanes"]] == [
        "charged to",
        "matmul, attention",
        "other compute",
        "communication dp",
        "copies",
        "idle, by cause",
    ]
    charged = step["lanes"][0]
    assert sum(charged["dur"]) == step["total_ns"]
    assert set(charged["gap"]) == {0}
    assert step["worst"][0]["title"] == "exposed DP communication: transfer"


def test_the_figures_can_be_taken_along(page, example):
    links = dict(re.findall(r'download="([^"]+)" href="data:[^;]+;base64,([^"]+)"', page))

    assert (
        json.loads(base64.b64decode(links["answer.json"]))["schema"] == document(example)["schema"]
    )
    table = pq.read_table(io.BytesIO(base64.b64decode(links["loss_time.parquet"])))
    assert sum(table["dur_ns"].to_pylist()) == 6_000_000_000
    rows = list(csv.DictReader(io.StringIO(base64.b64decode(links["losses.csv"]).decode())))
    assert rows[0]["id"] == "below_peak.gemm"


def test_cells_of_a_spreadsheet_are_no_formulas(example):
    answer = document(example)
    answer["losses"][0]["label"] = "=HYPERLINK(1)"

    files, _ = downloads(example, answer)

    text = base64.b64decode(files[0].link.partition(",")[2]).decode()
    assert ",'=HYPERLINK(1)," in text


def test_a_name_of_megabytes_does_not_make_a_page_of_megabytes(example, tmp_path):
    example.execute("UPDATE raw.name SET name = repeat('<b>', 1000000) WHERE name LIKE 'nvjet%'")

    page = _page(document(example), example, tmp_path)

    assert len(page) < 1_500_000
    assert "<b><b>" not in page


def test_time_by_phase_and_module_is_a_pivot_once_it_is_known(example, tmp_path):
    answer = document(example)
    assert "Not here: by phase" in _page(answer, example, tmp_path)
    answer["time"]["by_phase"] = {"forward": {"flop.gemm": 10}, "backward": {"flop.gemm": 30}}
    answer["time"]["by_module"] = [{"module": "layers.0.<mlp>", "leaves": {"flop.gemm": 10}}]

    page = _page(answer, example, tmp_path)

    assert 'aria-controls="pivot-phase"' in page
    assert "layers.0.&lt;mlp&gt;" in page


def test_conventions_stand_side_by_side(page):
    table = page.split('id="flops-title"')[1].split("</table>")[0]

    assert re.findall(r'<th scope="row">(\w+)</th>', table) == ["full", "causal"]
    assert "42.5 %" in table
    assert "39.5 %" in table


def test_a_long_label_is_broken_beside_its_bar(example):
    answer = document(example)
    answer["waterfall"][1]["label"] = "FLOP-bearing time below peak, recompute & credit included"

    ticks = waterfall_figure(answer).layout.yaxis.ticktext

    assert ticks[1] == "FLOP-bearing time below peak,<br>recompute &amp; credit included"


def _page(answer, store, tmp_path) -> str:
    save_html(answer, store, tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_slow_rank_is_shaded(example, tmp_path):
    # 60 ms of the 3 s of rank 1: 2 points above the other rank, 1 above the median, a fifth of 5.
    example.execute(
        "UPDATE raw.segment SET leaf = 'host.gc' "
        "WHERE gpu = 1 AND leaf = 'host.dispatch' AND step <= 4 AND activity_id % 2 = 0"
    )
    moved = example.scalar("SELECT sum(dur_ns) FROM segment WHERE rank = 1 AND leaf = 'host.gc'")
    assert moved == 15_000_000 + 40_000_000
    path = tmp_path / "report.html"

    save_html(document(example), example, path)

    ranks = path.read_text(encoding="utf-8").split('id="pivot-rank"')[1].split("</table>")[0]
    assert re.findall(r"--heat:([\d.]+)", ranks) == ["0.13", "0.13"]


def test_the_figure_is_the_waterfall(example):
    figure = waterfall_figure(document(example))
    (bar,) = figure.data

    assert list(bar.x) == [100.0, 12.5, 0.5, 9.5, 13.5, 19.8, 4.2, 0.5, 3.0, 42.5]
    assert list(bar.base) == [0, 87.5, 87.0, 77.5, 64.0, 44.2, 40.0, 39.5, 39.5, 0]
    assert list(bar.text)[1] == "−12.5"
    assert bar.customdata[1][0] == "idle"
    assert "−4.0  host dispatch" in bar.customdata[1][2]


def test_the_figure_is_byte_stable(example):
    answer = document(example)

    first, second = (
        waterfall_figure(answer).to_html(div_id=DIV_ID, include_plotlyjs=False) for _ in range(2)
    )

    assert first == second
    assert f'id="{DIV_ID}"' in first


def test_a_peak_that_is_beaten_stays_on_the_page(example, tmp_path):
    answer = document(example)
    answer["waterfall"][-2]["points"] = 457.5
    answer["waterfall"][-1]["points"] = 500.0

    page = _page(answer, example, tmp_path)

    ends = [
        float(left) + float(width)
        for left, width in re.findall(r'style="left:([\d.]+)%;width:([\d.]+)%', page)
    ]
    assert max(ends) == pytest.approx(100, abs=0.11)
    assert waterfall_figure(answer).layout.xaxis.range[1] >= 500
