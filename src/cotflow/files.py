"""Files that are whole or not there: atomic .npz archives that carry their origin and prove their integrity."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

FORMAT = 1
_META = "cotflow"


class FileFault(ValueError):
    """A file that cannot be used; the message names it and says what is wrong with it."""


class Damaged(FileFault):
    """A file whose contents are not what was once written: truncated, altered, or never a cotflow file."""


@contextmanager
def replacing(path: Path, suffix: str = ".tmp") -> Iterator[Path]:
    """A new neighbour of `path`, to be written in the block and then put in its place: readers see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{suffix}")
    try:
        beside.touch(exist_ok=False)
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = str(path)
        raise


def write_atomic(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Call `write(file)` on a temporary neighbour of `path`, then put that in its place."""
    with replacing(path) as beside, beside.open("wb") as file:
        write(file)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomic(path, lambda file: file.write(text.encode()))


def write_archive(path: Path, kind: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Write arrays and JSON-able `meta` as an uncompressed .npz file of a `kind`, with a checksum over all of it."""
    arrays = {name: _plain(name, value) for name, value in arrays.items()}
    header = {"kind": kind, "format": FORMAT, "meta": dict(meta), "checksum": checksum(arrays, meta)}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    write_atomic(path, lambda file: np.savez(file, **{_META: text}, **arrays))  # type: ignore[arg-type]


def _plain(name: str, value: Any) -> np.ndarray:
    """An array as a file can hold it: contiguous, of numbers or text."""
    value = np.asarray(value)
    if value.dtype.hasobject and all(isinstance(each, str) for each in value.flat):
        value = value.astype(str)
    if value.dtype.hasobject:
        raise ValueError(f"{name} holds Python objects; allowed: numbers and text")
    return np.ascontiguousarray(value).reshape(value.shape)


def read_archive(path: Path, kind: str, copy: bool = True) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and meta of a file written by `write_archive`; a `FileFault` for anything else. Nothing is ever unpickled.

    Without `copy` arrays are read-only, and not aligned in memory: for those who copy them anyway.
    """
    try:
        contents = dict(_members(path.read_bytes()))
        if _META not in contents:
            raise Damaged(f"{path} is not a cotflow file (it has no '{_META}' entry)")
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
    except (OSError, MemoryError) as error:
        raise FileFault(f"{path} cannot be read ({error})") from None
    except Exception as error:  # whatever the parsers of zip, npy and JSON make of bytes that are not theirs
        raise Damaged(f"{path} is truncated, damaged or not a cotflow file ({error})") from None
    if found != kind:
        raise FileFault(f"{path} is a {found} file; a {kind} file is needed")
    if version != FORMAT:
        raise FileFault(f"{path} has format {version}; this version of cotflow reads format {FORMAT}")
    if digest != checksum(contents, meta):
        raise Damaged(f"{path} is damaged: its contents do not match their checksum")
    return {name: value.copy() for name, value in contents.items()} if copy else contents, meta


def _members(raw: bytes) -> Iterator[tuple[str, np.ndarray]]:
    """Name and array of every member of an .npz archive; uncompressed ones are read-only views of `raw`."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for info in archive.infolist():
            if info.compress_type == zipfile.ZIP_STORED:
                name_and_extra = int.from_bytes(raw[info.header_offset + 26 : info.header_offset + 28], "little")
                name_and_extra += int.from_bytes(raw[info.header_offset + 28 : info.header_offset + 30], "little")
                start = info.header_offset + 30 + name_and_extra
                member = memoryview(raw)[start : start + info.file_size]
            else:
                member = memoryview(archive.read(info))
            yield info.filename.removesuffix(".npy"), _array(member)


def _array(member: memoryview) -> np.ndarray:
    """The array in a .npy file, without a copy."""
    wide = member[6] > 1  # the length of the header takes four bytes from version 2.0 on
    start = (12 if wide else 10) + int.from_bytes(member[8 : 12 if wide else 10], "little")
    shape, fortran, dtype = _npy_header(bytes(member[:start]))
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    values = np.frombuffer(member[start:], dtype)
    return values.reshape(shape, order="F" if fortran else "C")


@functools.lru_cache(maxsize=1024)
def _npy_header(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type from the head of a .npy file; kept, as records of one configuration have the same heads."""
    file = io.BytesIO(text)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    return read[np.lib.format.read_magic(file)](file)


def checksum(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> str:
    """SHA-256 over names, shapes, types, bytes and meta."""
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        value = arrays[name]
        digest.update(f"{name}{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data if value.size else b"")
    return digest.hexdigest()
