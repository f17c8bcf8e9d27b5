"""Files that are whole or not there: atomic .npz archives that carry their origin and prove their integrity."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1
_META = "cotflow"


class FileFault(ValueError):
    """A file that cannot be used; the message names it and says what is wrong with it."""


class Damaged(FileFault):
    """A file whose contents are not what was once written: truncated, altered, or never a cotflow file."""


def write_atomic(path: Path, write: Any) -> None:
    """Call `write(file)` on a temporary neighbour of `path`, then put that in its place: readers see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomic(path, lambda file: file.write(text.encode()))


def write_archive(path: Path, kind: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Write arrays and JSON-able `meta` as an uncompressed .npz file of a `kind`, with a checksum over all of it."""
    arrays = {name: np.ascontiguousarray(value).reshape(np.shape(value)) for name, value in arrays.items()}
    header = {"kind": kind, "format": FORMAT, "meta": dict(meta), "checksum": checksum(arrays, meta)}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    write_atomic(path, lambda file: np.savez(file, **{_META: text}, **arrays))  # type: ignore[arg-type]


def read_archive(path: Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and meta of a file written by `write_archive`; a `FileFault` for anything else. Nothing is ever unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            if _META not in names:
                raise Damaged(f"{path} is not a cotflow file (it has no '{_META}' entry)")
            contents = {}
            for name in names:
                with archive.open(f"{name}.npy") as member:
                    contents[name] = np.lib.format.read_array(member, allow_pickle=False)
        header = json.loads(contents.pop(_META).tobytes())
        found, version, meta, digest = header["kind"], header["format"], header["meta"], header["checksum"]
    except FileFault:
        raise
    except FileNotFoundError:
        raise FileFault(f"{path} does not exist") from None
    except PermissionError:
        raise FileFault(f"{path} may not be read (permission denied)") from None
    except IsADirectoryError:
        raise FileFault(f"{path} is a directory, not a {kind} file") from None
    except (OSError, EOFError, zipfile.BadZipFile, ValueError, KeyError, TypeError, NotImplementedError, MemoryError) as error:
        raise Damaged(f"{path} is truncated, damaged or not a cotflow file ({error})") from None
    if found != kind:
        raise FileFault(f"{path} is a {found} file; a {kind} file is needed")
    if version != FORMAT:
        raise FileFault(f"{path} has format {version}; this version of cotflow reads format {FORMAT}")
    if digest != checksum(contents, meta):
        raise Damaged(f"{path} is damaged: its contents do not match their checksum")
    return contents, meta


def checksum(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> str:
    """SHA-256 over names, shapes, types, bytes and meta."""
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        value = arrays[name]
        digest.update(f"{name}{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data if value.size else b"")
    return digest.hexdigest()
