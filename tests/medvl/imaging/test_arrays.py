import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from medvl.errors import DataError
from medvl.imaging import arrays
from medvl.imaging.arrays import read_named_array

LIVER = np.zeros((6, 9), np.uint8)
LIVER[1:4, 2:7] = 1
HELD = {
    "image": np.arange(6 * 9 * 3, dtype=np.uint8).reshape(6, 9, 3),
    "structures": {
        "liver": LIVER,
        "vein": LIVER == 0,
        "wide": LIVER.astype(">i4"),
        "by column": np.asfortranarray(LIVER),
    },
    "pixel size": np.float64(0.3),
    "note": "free text",
}


def write(path: Path, held: object, protocol: int = 4) -> Path:
    """A .npy file with one pickled object, as np.save writes it, in a pickle protocol of choice."""
    outer = np.array(None, dtype=object)
    outer[()] = held
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(outer))
    path.write_bytes(stream.getvalue() + pickle.dumps(outer, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_are_read_as_they_were_written_in_every_protocol(tmp_path, protocol):
    path = write(tmp_path / "P01_IMG1.npy", HELD, protocol)
    assert np.array_equal(read_named_array(path, "image"), HELD["image"])
    for name, array in HELD["structures"].items():
        read = read_named_array(path, f"structures/{name}")
        assert np.array_equal(read, array), name
        assert read.dtype == array.dtype, name


def test_the_file_is_what_numpy_writes(tmp_path):
    np.save(tmp_path / "a.npy", HELD)
    assert np.array_equal(read_named_array(tmp_path / "a.npy", "structures/liver"), LIVER)
    read = np.load(write(tmp_path / "b.npy", HELD), allow_pickle=True).item()
    assert np.array_equal(read["structures"]["liver"], LIVER)


def test_files_of_numpy_1_are_read(tmp_path):
    path = write(tmp_path / "old.npy", HELD, protocol=2)
    content = path.read_bytes()
    assert b"numpy._core.multiarray" in content
    path.write_bytes(content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert np.array_equal(read_named_array(path, "structures/liver"), LIVER)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("structures/spleen", "found liver, vein, wide, by column in structures"),
        ("liver", "found image, structures"),
        ("image/x", "found no dictionary in image"),
        ("structures", "something else"),
        ("note", "something else"),
        ("pixel size", r"something else.*shape \(\)"),
    ],
)
def test_what_is_no_array_of_that_name_is_refused_naming_what_there_is(tmp_path, name, found):
    with pytest.raises(DataError, match=rf"a\.npy: expected .*{name!r}.*{found}"):
        read_named_array(write(tmp_path / "a.npy", HELD), name)


class Call:
    """Pickles as a call of any function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call


def attacks(mark: Path) -> dict[str, object]:
    order = f"open({str(mark)!r}, 'w')"
    return {
        "os.system": Call(os.system, f"touch {mark}"),
        "eval": Call(eval, order),
        "exec in a name": {"structures": {"liver": Call(exec, order)}},
        "open": Call(open, str(mark), "w"),
        "numpy": Call(np.load, str(mark)),
        "another pickle": Call(pickle.loads, pickle.dumps(Call(eval, order))),
        "in an array of objects": {"structures": {"liver": np.array([[Call(eval, order)]], dtype=object)}},
    }


@pytest.mark.parametrize("name", list(attacks(Path("mark"))))
def test_a_malicious_pickle_is_refused_and_nothing_of_it_runs(tmp_path, name):
    mark = tmp_path / "mark"
    path = write(tmp_path / "bad.npy", attacks(mark)[name])
    with pytest.raises(DataError, match=r"bad\.npy: .*asks for .*Nothing in it was run"):
        read_named_array(path, "structures/liver")
    assert not mark.exists()


def test_the_attacks_would_run_under_an_ordinary_unpickler(tmp_path):
    mark = tmp_path / "mark"
    np.load(write(tmp_path / "bad.npy", attacks(mark)["eval"]), allow_pickle=True)
    assert mark.exists()


def pickled(body: bytes) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|O", "fortran_order": False, "shape": ()})
    return stream.getvalue() + body


@pytest.mark.parametrize(
    "body",
    [
        b"cnumpy\nndarray\n(N}S'__init__'\nNstb.",
        b"cnumpy\ndtype\n(N}S'__setstate__'\nNstb.",
        b"c_codecs\nencode\n(N}S'__new__'\nNstb.",
    ],
)
def test_a_pickle_cannot_change_the_stand_ins(tmp_path, body):
    before = {name: dict(vars(kind)) for name, kind in vars(arrays).items() if isinstance(kind, type)}
    (tmp_path / "bad.npy").write_bytes(pickled(body))
    with pytest.raises(DataError, match=r"bad\.npy"):
        read_named_array(tmp_path / "bad.npy", "x")
    assert {name: dict(vars(kind)) for name, kind in vars(arrays).items() if isinstance(kind, type)} == before


def test_bytes_in_other_encodings_are_not_decoded(tmp_path):
    (tmp_path / "bad.npy").write_bytes(pickled(b"c_codecs\nencode\n(Vaaaa\nVhex\ntR."))
    with pytest.raises(DataError, match="bytes in hex"):
        read_named_array(tmp_path / "bad.npy", "x")


class Lie(Call):
    """An array whose pickle states another shape or type than its bytes have."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, data: object) -> None:
        self.state = (1, shape, dtype, False, data)

    def __reduce__(self) -> tuple[object, ...]:
        return (np._core.multiarray._reconstruct, (np.ndarray, (0,), b"b"), self.state)


OBJECTS_IN_DISGUISE = np.dtype([("a", "O")])


@pytest.mark.parametrize(
    ("lie", "found"),
    [
        (Lie((1000, 1000), np.dtype("u1"), b"1234"), "4 bytes for shape"),
        (Lie((100_000, 100_000), np.dtype("u1"), b"1234"), "shape"),
        (Lie((-2, -2), np.dtype("u1"), b"1234"), "shape"),
        (Lie((2, 2), np.dtype("O"), [1, 2, 3, 4]), "something else"),
        (Lie((2, 2), np.dtype("O"), b"12345678" * 4), "type"),
        (Lie((2, 2), OBJECTS_IN_DISGUISE, b"12345678" * 4), "something else"),
        (Lie((2, 2), np.dtype("S8"), b"12345678" * 4), "type"),
    ],
)
def test_arrays_that_lie_about_themselves_are_refused(tmp_path, lie, found):
    with pytest.raises(DataError, match=rf"bad\.npy: .*{found}"):
        read_named_array(write(tmp_path / "bad.npy", {"x": lie}), "x")


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00", b"PK\x03\x04", pickled(b""), pickled(b"\x80\x04.")]
)
def test_files_that_are_cut_or_no_arrays_are_refused(tmp_path, content):
    (tmp_path / "cut.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"cut\.npy: expected a \.npy file with a dictionary"):
        read_named_array(tmp_path / "cut.npy", "x")


@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
def test_a_file_cut_short_is_refused(tmp_path, share):
    path = write(tmp_path / "a.npy", HELD)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(DataError, match=r"a\.npy"):
        read_named_array(path, "structures/liver")


def test_a_plain_array_and_an_absent_file_are_named(tmp_path):
    np.save(tmp_path / "plain.npy", LIVER)
    with pytest.raises(DataError, match=r"plain\.npy: expected a \.npy file with a dictionary.*shape \(6, 9\)"):
        read_named_array(tmp_path / "plain.npy", "x")
    with pytest.raises(DataError, match=r"none\.npy.*no file"):
        read_named_array(tmp_path / "none.npy", "x")
