import numpy as np
import pytest
from mini_fass import FOLDER, SHAPE, SHOWN, STRUCTURES, write_mini_fass

from medvl.benchmark.groups import normalise_group
from medvl.imaging.masks import read_mask
from medvl.imaging.reading import read_picture
from medvl.sources.fass import FASS
from medvl.sources.record import Domain, MaskFile


@pytest.fixture
def mini_fass(tmp_path):
    return write_mini_fass(tmp_path / "root" / "fass")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def groups(scan):
    return {record.record_id: normalise_group("fass", record.group, "") for record in scan.records}


def test_every_picture_gives_a_record_in_name_order(mini_fass):
    scan = FASS.scan(mini_fass)
    assert [record.record_id for record in scan.records] == [f"IMAGES/{name}.png" for name in sorted(SHOWN)]
    assert scan.warnings == []
    assert all(r.source == "fass" and r.domain is Domain.CLINICAL and not r.labels for r in scan.records)
    assert all(r.is_present and r.official_split is None for r in scan.records)
    assert all(read_picture(record.picture).shape == (*SHAPE, 3) for record in scan.records)


@pytest.mark.parametrize("name", SHOWN)
def test_each_structure_is_named_inside_the_array_file_that_marks_it(mini_fass, name):
    record = by_id(FASS.scan(mini_fass))[f"IMAGES/{name}.png"]
    path = mini_fass / "ARRAY_FORMAT" / f"{name}.npy"
    assert [s.label for s in record.structures] == list(STRUCTURES)
    masks = [MaskFile(path, array=f"structures/{s}", may_be_empty=True) for s in STRUCTURES]
    assert [s.mask for s in record.structures] == masks
    content = np.load(path, allow_pickle=True).item()
    for structure in record.structures:
        outer, inner = structure.mask.array.split("/")
        ys, xs = np.nonzero(content[outer][inner])
        found = (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) if len(xs) else None
        assert found == SHOWN[name].get(structure.label)


@pytest.mark.parametrize("name", SHOWN)
def test_an_array_of_zeros_is_a_structure_that_is_not_seen_and_no_fault(mini_fass, name):
    structures = by_id(FASS.scan(mini_fass))[f"IMAGES/{name}.png"].structures
    marked = {s.label: read_mask(s.mask.path, s.mask.value, array=s.mask.array).any() for s in structures}
    assert marked == {label: label in SHOWN[name] for label in STRUCTURES}
    assert all(structure.mask.may_be_empty for structure in structures)


def test_arrays_are_not_opened_by_the_scan(mini_fass):
    trap = mini_fass / "ARRAY_FORMAT" / "P01_IMG1.npy"
    trap.write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    assert len(by_id(FASS.scan(mini_fass))["IMAGES/P01_IMG1.png"].structures) == 4


def test_pictures_of_a_patient_share_their_group_and_long_ids_stay_apart(mini_fass):
    found = groups(FASS.scan(mini_fass))
    assert found["IMAGES/P01_IMG1.png"] == found["IMAGES/P01_IMG2.png"] == "fass:p1"
    assert found["IMAGES/P0149_IMG1.png"] == "fass:p149"
    assert len(set(found.values())) == 3


def test_ids_that_differ_in_leading_zeros_only_stay_apart_and_are_named(mini_fass):
    for part, ending in (("IMAGES", "png"), ("ARRAY_FORMAT", "npy")):
        (mini_fass / part / f"P1_IMG7.{ending}").write_bytes((mini_fass / part / f"P01_IMG1.{ending}").read_bytes())
    scan = FASS.scan(mini_fass)
    found = groups(scan)
    assert found["IMAGES/P01_IMG1.png"] == found["IMAGES/P01_IMG2.png"] != found["IMAGES/P1_IMG7.png"]
    assert len(set(found.values())) == 4
    (warning,) = scan.warnings
    assert warning.startswith("P1 and P01 both occur and count as different patients")


def test_an_array_without_a_picture_is_an_absent_picture(mini_fass):
    (mini_fass / "IMAGES" / "P23_IMG10.png").unlink()
    record = by_id(FASS.scan(mini_fass))["IMAGES/P23_IMG10.png"]
    assert not record.is_present
    assert record.picture == mini_fass / "IMAGES" / "P23_IMG10.png"


def test_a_picture_without_an_array_is_named_and_has_no_structure(mini_fass):
    (mini_fass / "ARRAY_FORMAT" / "P23_IMG10.npy").unlink()
    scan = FASS.scan(mini_fass)
    assert by_id(scan)["IMAGES/P23_IMG10.png"].structures == ()
    (warning,) = scan.warnings
    assert "1 picture (IMAGES/P23_IMG10.png) without an array" in warning


def test_files_named_otherwise_are_left_out_and_named(mini_fass):
    (mini_fass / "IMAGES" / "P01_IMG1 (copy).png").write_bytes((mini_fass / "IMAGES" / "P01_IMG1.png").read_bytes())
    scan = FASS.scan(mini_fass)
    assert len(scan.records) == len(SHOWN)
    assert "1 file (P01_IMG1 (copy).png) not named as" in scan.warnings[0]


def test_a_picture_that_is_not_yet_fetched_is_absent(mini_fass):
    (mini_fass / "IMAGES" / "P23_IMG10.png").unlink()
    (mini_fass / "IMAGES" / "P23_IMG10.png").symlink_to(mini_fass / "not_fetched")
    assert not by_id(FASS.scan(mini_fass))["IMAGES/P23_IMG10.png"].is_present


def test_upper_case_extensions_and_lower_case_names_are_found(mini_fass):
    (mini_fass / "IMAGES" / "P01_IMG1.png").rename(mini_fass / "IMAGES" / "p01_img1.PNG")
    record = by_id(FASS.scan(mini_fass))["IMAGES/p01_img1.png"]
    assert record.is_present
    assert len(record.structures) == 4


@pytest.mark.parametrize("inner", ["IMAGES", "ARRAY_FORMAT"])
def test_an_inner_archive_that_was_not_unpacked_is_named(mini_fass, inner):
    (mini_fass / inner).rename(mini_fass.parents[2] / "elsewhere")
    (mini_fass / f"{inner}.zip").touch()
    scan = FASS.scan(mini_fass)
    assert any(f"{inner}.zip is not unpacked: expected the folder {mini_fass / inner}" in w for w in scan.warnings)
    assert len(scan.records) == len(SHOWN)


@pytest.mark.parametrize("archive", [f"{FOLDER}.zip", "4gcpm9dsc3-1.zip", f"data/{FOLDER}/{FOLDER}.zip"])
def test_the_outer_archive_alone_is_found_and_named(tmp_path, archive):
    path = tmp_path / archive
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    home = FASS.find(tmp_path)
    assert home == path.parent
    scan = FASS.scan(home)
    assert scan.records == []
    assert scan.warnings[0].startswith(f"{path} is not unpacked")
    assert "the archive inside it" in scan.warnings[0]


def test_the_dataset_is_found_below_the_root_and_not_elsewhere(mini_fass, tmp_path_factory):
    root = mini_fass.parents[1]
    assert FASS.find(root) == FASS.find(root / "fass") == FASS.find(mini_fass) == mini_fass
    assert FASS.find(tmp_path_factory.mktemp("empty")) is None


def test_the_folder_that_an_archive_in_an_archive_makes_twice_is_found(tmp_path):
    home = write_mini_fass(tmp_path / "root" / "fass" / FOLDER)
    assert FASS.find(tmp_path / "root") == home
