"""From numbers and figures to one self-contained HTML page, without scripts and without anything fetched."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from ..figures.make import Drawn
from .measures import Measured


def page(title: str, lede: str, body: Iterable[str], footer: str) -> str:
    """The whole page; `lede`, `body` and `footer` are HTML."""
    here = files("cotflow.report")
    template = Template(here.joinpath("page.html").read_text(encoding="utf-8"))
    style = here.joinpath("page.css").read_text(encoding="utf-8")
    return template.substitute(title=escape(title), style=style, lede=lede, body="\n".join(body), footer=footer)


def section(title: str, *content: str) -> str:
    """A titled part of the page."""
    return "\n".join(["<section>", f"<h2>{escape(title)}</h2>", *content, "</section>"])


def paragraph(text: str, quiet: bool = False) -> str:
    """Plain text as a paragraph."""
    return f"<p{' class=quiet' if quiet else ''}>{escape(text)}</p>"


def code(*lines: str) -> str:
    """Commands as they are typed."""
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"


def number(measured: Measured, digits: int = 3) -> str:
    """A measured value with its spread, in plain text: 0.340 ± 0.155, 2.9 s, α = 5.52."""
    value = figure(measured.value, digits)
    if measured.value != measured.value:
        return value
    if measured.unit == "α":
        value = f"α = {measured.value:.2f}"
        return value if measured.spread is None else f"{value} ± {measured.spread:.2f}"
    if measured.spread is not None:
        places = max(0, len(value.partition(".")[2]))
        value = f"{value} ± {measured.spread:.{places}f}"
    return f"{value} {measured.unit}".strip()


def figure(value: float, digits: int = 3) -> str:
    """A number with about as many significant digits."""
    if value != value:
        return "never"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        superscript = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{mantissa}×10{superscript}".replace("-", "−")
    places = 0 if value == 0 else max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}".replace("-", "−")


def tiles(entries: Iterable[tuple[str, str]]) -> str:
    """The headline numbers: (name, value)."""
    cells = []
    for name, value in entries:
        main, spread, rest = value.partition(" ± ")
        shown = escape(main) + (f" <small>± {escape(rest)}</small>" if spread else "")
        cells.append(f"<div><dt>{escape(name)}</dt><dd>{shown}</dd></div>")
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def table(head: Sequence[str], rows: Iterable[Sequence[str | tuple[str, str]]]) -> str:
    """A table that becomes a list of cards on a phone; a cell may be (text, remark)."""
    header = "".join(f'<th scope="col">{escape(each)}</th>' for each in head)
    body = []
    for row in rows:
        cells = [f'<th scope="row">{_cell(row[0])}</th>']
        cells += [f'<td data-label="{escape(label)}">{_cell(cell)}</td>' for label, cell in zip(head[1:], row[1:], strict=True)]
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table class="cards"><thead><tr>{header}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def _cell(cell: str | tuple[str, str]) -> str:
    if isinstance(cell, str):
        return escape(cell)
    text, remark = cell
    return escape(text) + (f"<small>{escape(remark)}</small>" if remark else "")


def plate(drawn: Drawn) -> str:
    """A figure with its caption: the wide drawing, or the narrow one on a phone."""
    lead = f"{drawn.paper}. " if drawn.paper else ""
    caption = f"<b>{escape(lead + drawn.title)}.</b> {escape(drawn.caption)}"
    narrow = f'<source media="(max-width: 640px)" srcset="{_inline(drawn.narrow)}">' if drawn.narrow else ""
    picture = (
        f'<picture>{narrow}<img src="{_inline(drawn.wide)}" alt="{escape(lead + drawn.title)}"{_size(drawn.wide)}></picture>'
    )
    return f'<figure id="{escape(drawn.name)}">{picture}<figcaption>{caption}</figcaption></figure>'


def _size(svg: str) -> str:
    """Twice the size of print at most, so that a figure of one panel is not blown up to the width of the page."""
    points = re.search(r'width="([\d.]+)pt"', svg)
    return f' style="max-width:{2 * float(points[1]):.0f}px"' if points else ""


def _inline(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
