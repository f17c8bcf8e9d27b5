"""The report: every figure and every number of a directory of results on one page, and the numbers as JSON."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xarray as xr

from .. import __version__
from ..config import Config
from ..figures.make import Drawn
from ..figures.registry import FIGURES
from ..figures.sources import seed_numbers
from ..figures.words import TIERS, count, in_words
from ..files import write_text
from ..gradients.threads import cores
from ..results import ENSEMBLES, Results
from ..seeds import write_seeds
from ..status import duration
from ..trajectory import config_of
from . import measures, page
from .claims import CLAIMS

__all__ = ["main_runs", "numbers", "write"]

#: What agreement is measured of; accuracies are those of the training sequences, whose sampling noise is least.
COMPARED = ("A", "R", "S", "mu_k", "mu_o", "loss", "next_token_accuracy", "rollout_accuracy")
COMPARED_TIERS = ("closure", "quenched", "column")
LABELS = {"closure": "Closure (tier 1)", "quenched": "Quenched (tier 2)", "column": "Columns (tier 3)"}
TABLES = {"main": "Main table", "robustness": "Second table"}
_NAMES: dict[Any, str] = {
    "mu_k": "mean correct logit",
    "mu_o": "mean other logit",
    "next_token_accuracy": "next-token accuracy",
    "rollout_accuracy": "rollout accuracy",
}
_PACKAGES = ("numpy", "scipy", "numba", "xarray", "matplotlib")


def numbers(results: Results, figures: Sequence[Drawn] = (), command: str = "") -> dict[str, Any]:
    """Everything that the report says in numbers, ready for JSON; `command` is what repeats it."""
    run = main_runs(results)
    answers = {claim.key: claim.answer(results) for claim in CLAIMS}
    return {
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": {"cotflow": __version__, "python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        "machine": {"processor": platform.machine(), "system": platform.system(), "cores": cores()},
        "config": config_of(run).model_dump(mode="json"),
        "config_hash": config_of(run).hash,
        "seeds": seed_numbers(run),
        "table_seeds": {name: seed_numbers(results.runs(name)[0]) for name in TABLES if results.runs(name)},
        "engine": {key: run.attrs[key] for key in ("engine", "backend", "rtol", "atol") if key in run.attrs},
        "command": command,
        "cost": measures.cost(run),
        "training": training(results),
        "claims": [
            {
                "key": claim.key,
                "quantity": claim.quantity,
                "paper": claim.says,
                "paper_value": claim.value,
                "where": claim.where,
                "needs": claim.needs,
                "run": bool(results.points(claim.needs)),
                "measured": None if (answer := answers[claim.key]) is None else answer.as_dict(),
            }
            for claim in CLAIMS
        ],
        "agreement": agreement(results),
        "cross_check": cross_check(results),
        "figures": [{"name": each.name, "title": each.title, "paper": each.paper, "caption": each.caption} for each in figures],
    }


def agreement(results: Results) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """The distance of theory from simulation: by ensemble, variable and tier, for all that are there."""
    found: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    for name in TABLES:
        for run in results.runs(name):
            found[name] = {each: {} for each in COMPARED}
            for tier in COMPARED_TIERS:
                for theory in results.theory(name, tier):
                    errors = {each: measures.distance(run, theory, each, "train") for each in COMPARED}
                    for each, error in errors.items():
                        if error is not None:
                            found[name][each][tier] = error
    return found


def cross_check(results: Results) -> dict[str, Any] | None:
    """The ensemble's engine against every SGD step, where such a run is there: largest differences over the whole run."""
    exact = results.runs("exact")
    if not exact:
        return None
    errors = {name: measures.distance(exact[0], main_runs(results), name, "train") for name in COMPARED}
    return {
        "seeds": seed_numbers(exact[0]),
        "max": {name: error["per_seed_max"] for name, error in errors.items() if error is not None},
        "seconds": measures.cost(exact[0])["seconds"],
        "gradients": measures.cost(exact[0])["gradients"],
    }


def training(results: Results) -> dict[str, dict[str, float]]:
    """Runs and seconds of one core that training took, by ensemble."""
    found = {}
    for name in ENSEMBLES:
        if runs := results.runs(name):
            seconds = sum(measures.cost(run)["total"] for run in runs)
            found[name] = {"runs": sum(len(seed_numbers(run)) for run in runs), "seconds": seconds}
    return found


def write(results: Results, figures: Sequence[Drawn], out: Path, command: str) -> Path:
    """Write report.html and report.json into a directory; `command` is what repeats it. Returns the page."""
    found = numbers(results, figures, command)
    write_text(out / "report.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    path = out / "report.html"
    write_text(path, render(found, figures, {name: config_of(results.runs(name)[0]) for name in TABLES if results.runs(name)}))
    return path


def render(found: dict[str, Any], figures: Sequence[Drawn], tables: dict[str, Config]) -> str:
    """The page, from the numbers, the figures and the configurations of the tables."""
    from_paper = [each for each in figures if each.paper]
    beyond = [each for each in figures if not each.paper]
    body = [
        page.tiles(headlines(found)),
        page.section("The paper's claims beside what was measured", *_claims(found, tables["main"])),
        page.section("Agreement of theory and simulation", *_agreement(found)),
        page.section("The paper's figures", *map(page.plate, from_paper)) if from_paper else "",
        page.section("Beyond the paper", *map(page.plate, beyond)) if beyond else "",
        page.section("Configuration", *_configuration(found, tables)),
        page.section("To repeat this", page.code(found["command"]), page.paragraph(_repeat(found))),
    ]
    return page.page("Chain-of-thought state tracking, reproduced", _lede(found), body, f"<p>{_versions(found)}</p>")


def headlines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The numbers to begin with: name and value in words."""
    named = {claim.key: claim.headline for claim in CLAIMS if claim.headline}
    answers = {each["key"]: each["measured"] for each in found["claims"]}
    return [(name, page.number(_measured(answers[key]))) for key, name in named.items() if answers.get(key)]


def _measured(entry: dict[str, Any]) -> measures.Measured:
    return measures.Measured(**{**entry, "value": float("nan") if entry["value"] is None else entry["value"]})


def main_runs(results: Results) -> xr.Dataset:
    """The seeds of the main table, of which a report is."""
    runs = results.runs("main")
    if runs:
        return runs[0]
    if results.points("sweep"):
        raise ValueError(
            f"{results.root} holds a sweep, of which there is no report; `cotflow figures {results.root}` draws its transition "
            "times"
        )
    raise ValueError(f"{results.root} holds no records of the main table; allowed: a directory that `cotflow reproduce` made")


def _lede(found: dict[str, Any]) -> str:
    seeds = count(len(found["seeds"]), "seed")
    told = (
        f"A one-block transformer learns to compose permutations step by step. Below are {seeds}, trained from their own data "
        f"and initial weights, beside the mean-field theory of their learning curves: {_shown(found)}. "
        "Numbers are means over seeds ± one standard deviation."
    )
    return page.paragraph(told)


def _shown(found: dict[str, Any]) -> str:
    """What the page holds, as far as it was drawn."""
    paper = {entry.paper for entry in FIGURES.values() if entry.paper}
    drawn = sorted(int(each["paper"].split()[1]) for each in found["figures"] if each["paper"])
    parts = ["the paper's claims"]
    if len(drawn) == len(paper):
        parts.insert(0, "every figure of the paper")
    elif drawn:
        numbered = [span.split(":") for span in write_seeds(drawn).split(",")]
        spans = [span[0] if len(span) == 1 else f"{span[0]} to {int(span[1]) - 1}" for span in numbered]
        parts.insert(0, f"{'Figure' if len(drawn) == 1 else 'Figures'} {in_words(spans)} of the paper's {len(paper)}")
    if any(not each["paper"] for each in found["figures"]):
        parts.append("what lies beyond it")
    return in_words(parts)


def _claims(found: dict[str, Any], cfg: Config) -> list[str]:
    notes = []
    different = cfg.difference(Config.preset("main"))
    if different:
        told = ", ".join(f"{name} = {mine}" for name, (mine, _) in different.items())
        notes.append(page.paragraph(f"This is not the paper's main table ({told}); its numbers are those of that table.", True))
    rows = []
    for each in found["claims"]:
        if each["measured"] is None:
            rows.append(
                (
                    each["quantity"],
                    (each["paper"], each["where"]),
                    ("not defined here", "") if each["run"] else ("not run", "cotflow reproduce --all"),
                )
            )
        else:
            answer = _measured(each["measured"])
            rows.append((each["quantity"], (each["paper"], each["where"]), (page.number(answer), answer.how)))
    return [*notes, page.table(("Quantity", "Paper", "Measured"), rows)]


def _agreement(found: dict[str, Any]) -> list[str]:
    told = (
        "Largest absolute difference over the whole run between the means over seeds; below it the mean difference and, for "
        "theories "
        f"that know seeds, the largest of any single seed. Tiers: {'; '.join(TIERS[tier] for tier in COMPARED_TIERS)}. Loss and "
        "accuracies are those of training sequences."
    )
    parts = [page.paragraph(told)]
    for name, errors in found["agreement"].items():
        tiers = [tier for tier in COMPARED_TIERS if any(tier in by_tier for by_tier in errors.values())]
        if tiers:
            rows = [(str(_NAMES.get(each, each)), *(_error(by.get(tier)) for tier in tiers)) for each, by in errors.items()]
            parts.append(f"<h3>{TABLES[name]}</h3>")
            parts.append(page.table(("Quantity", *(LABELS[tier] for tier in tiers)), rows))
    if found["cross_check"]:
        parts.append(page.paragraph(_cross_check(found["cross_check"])))
    return parts


def _error(error: dict[str, Any] | None) -> tuple[str, str]:
    if error is None:
        return "not predicted", ""
    told = f"mean {page.figure(error['mean'], 2)}, {count(error['seeds'], 'seed')}"
    if error["per_seed_max"] is not None:
        told += f", any one {page.figure(error['per_seed_max'], 2)}"
    return page.figure(error["max"], 2), told


def _cross_check(check: dict[str, Any]) -> str:
    told = ", ".join(f"{_NAMES.get(name, name)} {page.figure(value, 2)}" for name, value in check["max"].items())
    return (
        f"Cross-check against every SGD step of seed {check['seeds'][0]} ({check['gradients']:,.0f} gradients, "
        f"{check['seconds']:.0f} s): largest differences over the run {told}."
    )


def _configuration(found: dict[str, Any], tables: dict[str, Config]) -> list[str]:
    configs = [cfg.model_dump(mode="json") for cfg in tables.values()]
    rows = [(name, *(str(fields[name]) for fields in configs)) for name in configs[0]]
    seeds = ("seeds", *(write_seeds(found["table_seeds"][name]) for name in tables))
    return [page.table(("Field", *(TABLES[name] for name in tables)), [seeds, *rows])]


def _repeat(found: dict[str, Any]) -> str:
    cost, ensembles = found["cost"], found["training"].values()
    runs = count(int(sum(each["runs"] for each in ensembles)), "run")
    return (
        f"Training took {duration(sum(each['seconds'] for each in ensembles))} of one core in all, for {runs}; a median of "
        f"{page.figure(cost['seconds'], 2)} s a seed of the main table. "
        "Records carry configuration, seed, engine and versions; the same command goes on where it was interrupted and repeats "
        "nothing that is there. The numbers on this page are in report.json, the figures as PNG and PDF in figures/."
    )


def _versions(found: dict[str, Any]) -> str:
    told = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    engine = ", ".join(f"{key} {value}" for key, value in found["engine"].items())
    machine = found["machine"]
    where = f"{machine['system']}, {machine['processor']}, {count(machine['cores'], 'core')}"
    return f"Made {found['made']} with {told}; {engine}; {where}."
