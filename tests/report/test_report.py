"""The report is one page that needs nothing else, and says what was measured."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import cotflow as cf
from cotflow import report
from cotflow.figures.make import available, draw_all
from cotflow.report.claims import CLAIMS
from cotflow.reproduce import solve_theories
from cotflow.results import Results
from cotflow.trajectory import record_path

VOID = {"meta", "link", "img", "source", "br"}


@pytest.fixture(scope="module")
def place(tiny, tmp_path_factory):
    """Three seeds, their theories, two figures and the report."""
    root = tmp_path_factory.mktemp("results")
    for seed in (0, 1, 2):
        cf.save(cf.simulate(tiny, seed), record_path(root / "main", seed))
    solve_theories(Results(root), None, lambda text: None)
    results = Results(root)
    drawn = draw_all(results, ["order_parameters", "tiers"], root / "figures", inline=True)
    report.write(results, drawn, root, "cotflow reproduce --seeds 0:3")
    return root


class Page(HTMLParser):
    """Tags and addresses of a page; unbalanced tags are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "srcset", "href") and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing(place):
    text = (place / "report.html").read_text()
    page = Page(text)
    assert "script" not in page.tags
    assert page.addresses
    assert all(address.startswith("data:") for address in page.addresses)
    assert "url(" not in text.partition("<body>")[0]
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_every_figure_is_there_wide_and_narrow_with_words_for_it(place):
    text = (place / "report.html").read_text()
    drawings = [base64.b64decode(each).decode() for each in re.findall(r"data:image/svg\+xml;base64,([^\"]+)", text)]
    widths = [float(re.search(r'width="([\d.]+)pt"', svg)[1]) for svg in drawings]  # type: ignore[index]
    assert sorted(widths) == pytest.approx([3.4 * 72, 3.4 * 72, 7 * 72, 7 * 72], rel=0.01)
    assert text.count("<figcaption>") == 2
    assert 'alt="Figure 2. Order parameters"' in text


def test_numbers_are_those_of_the_records(place, tiny):
    found = json.loads((place / "report.json").read_text())
    runs = cf.load(place / "main")
    claims = {claim["key"]: claim for claim in found["claims"]}
    variance = runs.var_k.sel(split="train").isel(epoch=0)
    assert claims["initial_var_k"]["measured"]["value"] == pytest.approx(float(variance.mean()))
    assert claims["initial_var_k"]["measured"]["spread"] == pytest.approx(float(variance.std(ddof=1)))
    assert claims["final_rollout"]["measured"]["value"] == pytest.approx(
        float(runs.rollout_accuracy.sel(split="test").isel(epoch=-1).mean())
    )
    closure = cf.theory.closure(tiny)
    assert found["agreement"]["main"]["A"]["closure"]["max"] == pytest.approx(
        float(np.abs(runs.A.mean("seed") - closure.A).max())
    )
    assert found["config"] == tiny.model_dump(mode="json")
    assert found["seeds"] == [0, 1, 2]
    assert found["cost"]["gradients"] == float(np.median(runs.gradients))


def test_times_are_means_over_the_seeds_that_cross_and_say_who_does_not(tiny, tmp_path):
    """Straight lines that reach 1/2 at a quarter and a half of the run, and one that never does."""
    run = cf.simulate(tiny, 0)
    end = float(run.alpha[-1])
    for seed, slope in enumerate((2.0, 1.0, 0.25)):
        line = np.clip(slope * run.alpha.values / end, 0, 1)
        made = run.assign(A=("epoch", line), rollout_accuracy=(("split", "epoch"), np.stack([line, line])))
        cf.save(made.assign_attrs(seed=seed), record_path(tmp_path / "main", seed))
    claims = {claim["key"]: claim["measured"] for claim in report.numbers(Results(tmp_path))["claims"]}
    for key in ("lock_in", "rollout_midpoint"):
        assert claims[key]["value"] == pytest.approx(end * (0.25 + 0.5) / 2, rel=1e-3)
        assert claims[key]["spread"] == pytest.approx(end * 0.25 / np.sqrt(2), rel=1e-3)
        assert "1 of 3 seeds never" in claims[key]["how"]
    assert "formula with measured variances: never" in claims["rollout_midpoint"]["how"]


def test_what_was_not_run_says_so_and_how(place):
    found = json.loads((place / "report.json").read_text())
    assert {claim["key"] for claim in found["claims"] if not claim["run"]} == {
        claim.key for claim in CLAIMS if claim.needs != "main"
    }
    text = (place / "report.html").read_text()
    assert "cotflow reproduce --all" in text
    assert "cotflow reproduce --seeds 0:3" in text
    assert "This is not the paper&#x27;s main table" in text


def test_every_claim_has_a_place_in_the_paper():
    assert len({claim.key for claim in CLAIMS}) == len(CLAIMS)
    assert all(re.match(r"(Fig\.|Sec\.|App\.) ", claim.where) for claim in CLAIMS)


def test_names_are_escaped():
    assert "<b>" not in report.page.table(("a", "b"), [("<b>", ("&", "<i>"))]).replace("<small>", "")


def test_a_single_directory_of_records_has_a_report_too(place):
    results = Results(place / "main", place / "theory")
    assert "order_parameters" in available(results)
    assert report.numbers(results)["agreement"]["main"]["R"]["quenched"]["seeds"] == 3


def test_without_records_there_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="holds no records of the main table"):
        report.numbers(Results(tmp_path))
