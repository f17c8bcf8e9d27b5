"""Every command and every Python block of README and docs works as printed.

The fenced blocks of a document run in order, in one empty directory and one Python session, as a reader would try them:
`python` is executed, `sh` goes to a shell with `cotflow` on its path, `toml` is parsed. A comment on the line before a block
says where a test departs from what is printed, and why:

    <!-- test: "--seeds 0:100" is "--seeds 0:2"; "main" is "smoke"; (a hundred seeds take minutes) -->
    <!-- test: not run (needs a cluster) -->
    <!-- test: file grid.toml; "0:20" is "0:1"; (to save time) -->

A block with a `file` is written to that file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from cotflow.cli import COMMANDS

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = ("python", "sh")
SHOWN = ("", "text", "toml", "bibtex", "json")
COMMENT = re.compile(r"<!--\s*test:\s*(.*?)\s*-->")

# Runs the blocks in a process of its own, so that one document cannot change what another one sees.
SESSION = """
import json, subprocess, sys
session = {"__name__": "__main__"}
for kind, place, code in json.loads(sys.stdin.read()):
    print(f"--- {place}", flush=True)
    if kind == "python":
        exec(compile("\\n" * (int(place.rsplit(":", 1)[1]) - 1) + code, place.rsplit(":", 1)[0], "exec"), session)
    elif kind == "file":
        open(place.split(" ")[0], "w").write(code)
    else:
        subprocess.run(["bash", "-euo", "pipefail", "-c", code], check=True)
"""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text, first line, and what the comment before it says."""

    document: Path
    line: int
    language: str
    text: str
    note: str

    def __str__(self) -> str:
        return f"{self.document.name}:{self.line}"

    @property
    def skipped(self) -> bool:
        return self.note.startswith("not run")

    @property
    def file(self) -> str | None:
        return re.split(r"[ ;]", self.note.removeprefix("file "))[0] if self.note.startswith("file ") else None

    def as_tested(self) -> str:
        """The text with the replacements of its comment made; each of them must be there to replace."""
        text = self.text
        for printed, tested in re.findall(r'"([^"]+)" is "([^"]*)"', self.note):
            assert printed in text, f"{self}: {printed!r} is not in the block"
            text = text.replace(printed, tested)
        return text


def blocks(document: Path) -> list[Block]:
    """The fenced blocks of a Markdown file."""
    found, opened, note = [], None, ""
    lines = document.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        fence = re.fullmatch(r"\s*(```+|~~~+)(.*)", line)
        if opened is None and fence:
            comment = COMMENT.fullmatch(lines[number - 2].strip()) if number > 1 else None
            opened, note = (number, fence[2].strip(), fence[1]), comment[1] if comment else ""
        elif opened is not None and fence and fence[1].startswith(opened[2]) and not fence[2].strip():
            found.append(Block(document, opened[0] + 1, opened[1], "\n".join(lines[opened[0] : number - 1]) + "\n", note))
            opened = None
    assert opened is None, f"{document.name}:{opened[0]} opens a block that does not end" if opened else ""
    return found


EVERY = [block for document in DOCUMENTS for block in blocks(document)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_what_a_document_shows_works(document, tmp_path):
    steps = []
    for block in blocks(document):
        if block.file:
            steps.append(("file", f"{block.file} ({block})", block.as_tested()))
        elif block.language in RUN and not block.skipped:
            steps.append((block.language, str(block), block.as_tested()))
    if not steps:
        pytest.skip("shows nothing that runs")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", SESSION], input=json.dumps(steps), capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("block", EVERY, ids=str)
def test_every_block_is_one_that_a_test_understands(block):
    assert block.language in (*RUN, *SHOWN), f"{block}: {block.language!r} is run by no test"
    if block.language not in RUN:
        commands = [line for line in block.text.splitlines() if re.match(r"\s*\$?\s*(cotflow|make|python|pip|git) ", line)]
        assert not commands, f"{block}: commands belong in a block marked sh"
    if block.language == "toml":
        tomllib.loads(block.text)
    if block.note and block.note != f"file {block.file}":
        assert re.search(r"\([^()]{8,}\)", block.note), f"{block}: a departure from what is printed needs a reason (in brackets)"
        assert block.skipped or block.as_tested() != block.text, f"{block}: this comment is not understood: {block.note}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_command_target_and_file_that_is_named_exists(document):
    """In running text and in blocks that are not run as well."""
    text = document.read_text()
    named = set(re.findall(r"\bcotflow ([a-z]+)\b(?= |`|$)", " ".join(re.findall(r"`(cotflow [^`]*)`", text))))
    named |= {match[1] for block in blocks(document) for match in re.finditer(r"^\s*cotflow ([a-z]+)", block.text, re.M)}
    assert named <= set(COMMANDS)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"(?:`|^)make ([a-z]+)", text, re.M)) <= targets
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert link.startswith(("http://", "https://")) or (document.parent / link).exists(), f"{link} is not there"


def test_a_block_that_fails_is_reported_with_its_place(tmp_path):
    """The harness itself: it runs blocks in order in one session, makes the replacements, and does not hide a failure."""
    document = tmp_path / "page.md"
    document.write_text(
        '<!-- test: "1 + 1" is "2 + 2"; (for the sake of the example) -->\n```python\nx = 1 + 1\n```\n'
        "```sh\necho hello > there.txt\n```\n```python\nassert x == 4 and open('there.txt').read() == 'hello\\n'\n```\n"
    )
    (tmp_path / "one").mkdir()
    test_what_a_document_shows_works(document, tmp_path / "one")
    document.write_text(document.read_text() + "```sh\nfalse\n```\n")
    (tmp_path / "two").mkdir()
    with pytest.raises(AssertionError, match=r"page\.md:12"):
        test_what_a_document_shows_works(document, tmp_path / "two")


def test_there_is_something_to_test():
    assert {block.document.name for block in EVERY if block.language in RUN and not block.skipped} >= {"README.md"}
