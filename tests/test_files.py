"""A file is whole or it is named with its fault; nothing is ever unpickled."""

from __future__ import annotations

import os

import numpy as np
import pytest

from cotflow.files import FileFault, read_archive, write_archive, write_atomic

ARRAYS = {"x": np.arange(12.0).reshape(3, 4), "flag": np.array(True), "text": np.array("β")}
META = {"config": {"N": 3}, "name": "β"}


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, "trajectory", ARRAYS, META)
    return path


def test_round_trip(archive):
    arrays, meta = read_archive(archive, "trajectory")
    assert meta == META
    assert set(arrays) == set(ARRAYS)
    for name, value in ARRAYS.items():
        assert arrays[name].dtype == value.dtype
        assert np.array_equal(arrays[name], value)


def test_numpy_reads_it_too(archive):
    with np.load(archive) as plain:
        assert np.array_equal(plain["x"], ARRAYS["x"])


def test_every_truncation_is_named(archive):
    whole = archive.read_bytes()
    for length in range(0, len(whole), 37):
        archive.write_bytes(whole[:length])
        with pytest.raises(FileFault, match=str(archive)):
            read_archive(archive, "trajectory")


def test_every_flipped_byte_is_noticed_or_harmless(archive):
    whole = archive.read_bytes()
    reference = read_archive(archive, "trajectory")
    for place in range(0, len(whole), 11):
        archive.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            arrays, meta = read_archive(archive, "trajectory")
        except FileFault:
            continue
        assert meta == reference[1]
        assert all(np.array_equal(arrays[name], value) for name, value in reference[0].items())


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda p: p.write_text("not an archive"), "truncated, damaged or not a cotflow file"),
        (lambda p: np.savez(p, x=np.arange(3)), "not a cotflow file"),
        (lambda p: np.savez(p, cotflow=np.array([object()])), "truncated, damaged or not a cotflow file"),
        (lambda p: write_archive(p, "checkpoint", ARRAYS, META), "is a checkpoint file; a trajectory file is needed"),
        (lambda p: p.mkdir(), "is a directory"),
        (lambda p: None, "does not exist"),
    ],
    ids=["text", "foreign", "pickled", "kind", "directory", "absent"],
)
def test_faults_have_names(tmp_path, make, fault):
    path = tmp_path / "b.npz"
    make(path)
    with pytest.raises(FileFault, match=fault) as caught:
        read_archive(path, "trajectory")
    assert str(path) in str(caught.value)


def test_a_failed_write_leaves_the_old_file_and_no_litter(archive):
    before = archive.read_bytes()

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomic(archive, fail)
    assert archive.read_bytes() == before
    assert list(archive.parent.iterdir()) == [archive]


def test_text_is_kept_and_objects_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, "trajectory", {"words": np.array(["a", "βγ"], dtype=object)}, META)
    assert read_archive(path, "trajectory")[0]["words"].tolist() == ["a", "βγ"]
    with pytest.raises(ValueError, match="things holds Python objects; allowed: numbers and text"):
        write_archive(path, "trajectory", {"things": np.array([{}, None])}, META)
    assert read_archive(path, "trajectory")[0]["words"].tolist() == ["a", "βγ"]


def test_files_are_as_open_to_others_as_the_user_wants(tmp_path):
    before = os.umask(0o077)
    try:
        write_archive(tmp_path / "a.npz", "trajectory", ARRAYS, META)
    finally:
        os.umask(before)
    assert (tmp_path / "a.npz").stat().st_mode & 0o777 == 0o600
