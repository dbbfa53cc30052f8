import base64
import gzip
import json
import re

import pytest
from plotly.offline import get_plotlyjs

from tracelens.report import document, save_html, waterfall_figure
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


def test_plotly_is_inside_byte_for_byte(page):
    packed = base64.b64decode(script(page, "tracelens-plotly"))

    assert gzip.decompress(packed).decode() == get_plotlyjs()


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
    figure = json.loads(script(text, "tracelens-figure"))
    ticks = figure["layout"]["yaxis"]["ticktext"]
    assert ticks[1] == "&lt;/script&gt;&lt;img onerror=alert(1)&gt;&amp;"
    assert "\\u0026lt;/script\\u0026gt;" in script(text, "tracelens-figure")


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


def test_the_gain_of_a_repair_has_a_column_once_one_is_known(example, tmp_path):
    answer = document(example)
    assert "If fixed" not in _page(answer, example, tmp_path)

    answer["losses"][0]["recoverable_points"] = 4.1

    assert 'class="num">If fixed</th>' in _page(answer, example, tmp_path)
    assert '<td class="num">4.1</td>' in _page(answer, example, tmp_path)


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

    ranks = path.read_text(encoding="utf-8").split('id="ranks-title"')[1].split("</table>")[0]
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
