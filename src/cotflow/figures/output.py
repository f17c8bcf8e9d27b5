"""From a figure to files: PNG and PDF for print, and SVG that follows a page's light or dark scheme."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from ..files import write_atomic
from .style import BLUE, FAINT, GREEN, GREY, INK, ORANGE, PURPLE, SKY, STYLE, VERMILION

FORMATS = ("png", "pdf", "svg")
#: What every colour of the palette becomes on a dark page: the same hue, light enough to read.
ON_DARK = {
    INK: "#ececec",
    GREY: "#a2a2a2",
    FAINT: "#4a4a4a",
    BLUE: "#4aa8e8",
    VERMILION: "#ff8a3c",
    GREEN: "#2fc79a",
    ORANGE: "#f0b429",
    SKY: "#7fd0ff",
    PURPLE: "#e29ac0",
}


def save(figure: Figure, stem: str | Path, formats: Iterable[str] = ("png", "pdf")) -> list[Path]:
    """Write a figure as `stem` with each format's suffix, atomically and without time stamps.

    A `stem` that ends in the suffix of a format ("figure.png") is that file alone.
    """
    stem = Path(stem)
    if stem.suffix[1:] in FORMATS:
        stem, formats = stem.with_suffix(""), [stem.suffix[1:]]
    paths = []
    for kind in check_formats(formats):
        path = Path(f"{stem}.{kind}")
        data = to_svg(figure).encode() if kind == "svg" else _render(figure, kind)
        write_atomic(path, lambda file, data=data: file.write(data))
        paths.append(path)
    return paths


def check_formats(formats: Iterable[str]) -> list[str]:
    """Refuse a format that nothing writes."""
    formats = list(formats)
    for kind in formats:
        if kind not in FORMATS:
            raise ValueError(f"format = {kind!r} is not allowed; allowed: {', '.join(FORMATS)}")
    return formats


def to_svg(figure: Figure) -> str:
    """A figure as SVG whose palette follows the viewer's light or dark scheme."""
    text = _render(figure, "svg", transparent=True).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text)  # a hundredth of a point is enough
    for number, color in enumerate(ON_DARK):
        text = re.sub(color, f"var(--c{number})", text, flags=re.IGNORECASE)
    light = "".join(f"--c{number}:{color};" for number, color in enumerate(ON_DARK))
    dark = "".join(f"--c{number}:{color};" for number, color in enumerate(ON_DARK.values()))
    scheme = f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    return re.sub(r"(<svg[^>]*>)", rf"\1{scheme}", text, count=1)


def _render(figure: Figure, kind: str, **options: Any) -> bytes:
    stamps = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    buffer = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(buffer, format=kind, metadata=stamps, **options)
    return buffer.getvalue()
