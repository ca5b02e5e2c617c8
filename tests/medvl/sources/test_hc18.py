import numpy as np
import pytest
from mini_hc18 import ABSENT, HEADS, TEST_PICTURES, draw_head
from PIL import Image

from medvl.errors import DataError
from medvl.imaging.masks import check_mask, mask_boxes, read_mask
from medvl.imaging.reading import read_picture
from medvl.sources.hc18 import HC18
from medvl.sources.record import Domain, MaskFile, Split

TABLE = "training_set_pixel_size_and_HC.csv"


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def box_of(record) -> tuple[int, ...]:
    mask_file = record.structures[0].mask
    mask = read_mask(mask_file.path, mask_file.value)
    check_mask(mask, read_picture(record.picture).shape, record.where)
    return mask_boxes(mask, is_outline=mask_file.is_outline)[0]


def test_every_row_gives_a_record_in_table_order(mini_hc18):
    scan = HC18.scan(mini_hc18)
    names = [f"training_set/{name}.png" for name in sorted((*HEADS, *ABSENT))]
    assert [record.record_id for record in scan.records] == names + [f"test_set/{name}.png" for name in TEST_PICTURES]
    assert scan.warnings == []
    assert {record.domain for record in scan.records} == {Domain.CLINICAL}
    assert {record.source for record in scan.records} == {"hc18"}
    assert not any(record.labels for record in scan.records)


def test_training_pictures_carry_the_outline_of_the_head_and_their_row(mini_hc18):
    record = by_id(HC18.scan(mini_hc18))["training_set/010_2HC.png"]
    (structure,) = record.structures
    assert structure.label == "fetal head"
    assert structure.mask == MaskFile(mini_hc18 / "training_set" / "010_2HC_Annotation.png", None, is_outline=True)
    assert record.picture == mini_hc18 / "training_set" / "010_2HC.png"
    assert record.where == f"{TABLE} row 6"
    assert record.official_split is Split.TRAIN


def test_repeats_of_a_subject_share_their_group_and_sets_do_not(mini_hc18):
    records = by_id(HC18.scan(mini_hc18))
    assert records["training_set/010_HC.png"].group == records["training_set/010_2HC.png"].group == "010"
    assert records["training_set/001_HC.png"].group != records["test_set/001_HC.png"].group


def test_test_pictures_are_counted_but_carry_nothing_to_ask_about(mini_hc18):
    # Even beside a stray annotation.
    Image.new("L", (120, 90)).save(mini_hc18 / "test_set" / "000_HC_Annotation.png")
    records = [r for r in HC18.scan(mini_hc18).records if r.official_split is Split.TEST]
    assert len(records) == 3
    assert all(record.is_present and not record.structures for record in records)


def test_rows_without_a_file_are_absent_without_a_warning_each(mini_hc18):
    records = by_id(HC18.scan(mini_hc18))
    assert [r.record_id for r in records.values() if not r.is_present] == [f"training_set/{n}.png" for n in ABSENT]
    assert not records["training_set/003_HC.png"].structures


@pytest.mark.parametrize("name", list(HEADS))
def test_outline_and_filled_annotation_give_the_box_of_the_drawn_head(mini_hc18, name):
    record = by_id(HC18.scan(mini_hc18))[f"training_set/{name}.png"]
    ys, xs = np.where(draw_head(name, filled=False))
    expected = (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)
    assert box_of(record) == expected
    Image.fromarray(draw_head(name, filled=True)).convert("RGB").save(record.structures[0].mask.path)
    assert box_of(record) == expected


def test_upper_case_extensions_are_found(mini_hc18):
    folder = mini_hc18 / "training_set"
    (folder / "001_HC.png").rename(folder / "001_HC.PNG")
    (folder / "001_HC_Annotation.png").rename(folder / "001_HC_Annotation.PNG")
    record = by_id(HC18.scan(mini_hc18))["training_set/001_HC.png"]
    assert record.is_present
    assert record.picture.name == "001_HC.PNG"
    assert record.structures[0].mask.path.name == "001_HC_Annotation.PNG"
    assert box_of(record)


def test_names_with_a_windows_folder_are_the_same_pictures(mini_hc18):
    expected = HC18.scan(mini_hc18).records
    table = mini_hc18 / TABLE
    table.write_text(table.read_text().replace("\n0", "\ntraining_set\\0"))
    assert HC18.scan(mini_hc18).records == expected


@pytest.mark.parametrize(
    ("delimiter", "encoding"), [(";", "utf-8"), (",", "utf-8-sig"), (",", "utf-16"), ("\t", "latin-1")]
)
def test_tables_saved_again_by_a_spreadsheet_give_the_same_records(mini_hc18, delimiter, encoding):
    expected = HC18.scan(mini_hc18).records
    table = mini_hc18 / TABLE
    table.write_bytes(table.read_text().replace(",", delimiter).encode(encoding))
    assert HC18.scan(mini_hc18).records == expected


def test_a_picture_that_is_not_yet_fetched_is_absent(mini_hc18):
    (mini_hc18 / "training_set" / "001_HC.png").unlink()
    (mini_hc18 / "training_set" / "001_HC.png").symlink_to(mini_hc18 / "not_fetched")
    assert not by_id(HC18.scan(mini_hc18))["training_set/001_HC.png"].is_present


def test_a_picture_without_annotation_is_named_and_has_no_structure(mini_hc18):
    (mini_hc18 / "training_set" / "002_HC_Annotation.png").unlink()
    scan = HC18.scan(mini_hc18)
    assert by_id(scan)["training_set/002_HC.png"].structures == ()
    assert len(scan.warnings) == 1
    assert "1 picture (training_set/002_HC.png) without an annotation" in scan.warnings[0]


def test_a_picture_without_a_row_is_kept_and_named(mini_hc18):
    table = mini_hc18 / TABLE
    table.write_text("\n".join(line for line in table.read_text().split("\n") if not line.startswith("014_3HC")))
    scan = HC18.scan(mini_hc18)
    assert by_id(scan)["training_set/014_3HC.png"].structures
    assert by_id(scan)["training_set/014_3HC.png"].where == "training_set/014_3HC.png"
    assert [w for w in scan.warnings if "014_3hc.png" in w.lower() and "without a row" in w] == scan.warnings


def test_files_that_belong_nowhere_are_named(mini_hc18):
    folder = mini_hc18 / "training_set"
    (folder / "003_HC_Annotation.png").touch()
    (folder / "copy of 001_HC.png").touch()
    warnings = HC18.scan(mini_hc18).warnings
    assert any("1 annotation (003_HC_Annotation.png) without a picture" in w for w in warnings)
    assert any("1 file (copy of 001_HC.png) not named as" in w for w in warnings)
    assert len(warnings) == 2


def test_a_picture_listed_twice_is_refused(mini_hc18):
    with (mini_hc18 / TABLE).open("a") as table:
        table.write("001_HC.png,0.1,99\n")
    with pytest.raises(DataError, match=rf"{TABLE} row 9: .*001_HC\.png again"):
        HC18.scan(mini_hc18)


def test_a_row_that_names_no_picture_of_the_dataset_is_refused(mini_hc18):
    with (mini_hc18 / TABLE).open("a") as table:
        table.write("head.png,0.1,99\n")
    with pytest.raises(DataError, match=rf"{TABLE} row 9: .*found 'head\.png'"):
        HC18.scan(mini_hc18)


def test_a_table_without_file_names_is_refused(mini_hc18):
    table = mini_hc18 / TABLE
    table.write_text(table.read_text().replace("filename", "file name"))
    with pytest.raises(DataError, match=rf"{TABLE}: expected column.s. 'filename'.*Is 'file name'"):
        HC18.scan(mini_hc18)


def test_an_archive_that_was_not_unpacked_is_named(mini_hc18):
    (mini_hc18 / "training_set").rename(mini_hc18.parent / "elsewhere")
    (mini_hc18 / "training_set.zip").touch()
    scan = HC18.scan(mini_hc18)
    assert any("training_set.zip is not unpacked" in warning for warning in scan.warnings)
    assert not any(r.is_present for r in scan.records if r.official_split is Split.TRAIN)


def test_the_archive_alone_is_found_and_named(tmp_path):
    (tmp_path / "HC18.zip").touch()
    assert HC18.find(tmp_path) == tmp_path
    scan = HC18.scan(tmp_path)
    assert scan.records == []
    assert scan.warnings[0].startswith(f"{tmp_path / 'HC18.zip'} is not unpacked: expected the table")


def test_a_copy_without_the_test_set_is_usable(mini_hc18):
    (mini_hc18 / "test_set_pixel_size.csv").unlink()
    for path in (mini_hc18 / "test_set").iterdir():
        path.unlink()
    scan = HC18.scan(mini_hc18)
    assert len(scan.records) == len(HEADS) + len(ABSENT)
    assert "no test_set_pixel_size.csv" in scan.warnings[0]


def test_the_dataset_is_found_below_the_root_and_not_elsewhere(mini_hc18, tmp_path_factory):
    assert HC18.find(mini_hc18.parent) == mini_hc18
    assert HC18.find(mini_hc18) == mini_hc18
    assert HC18.find(tmp_path_factory.mktemp("empty")) is None


def test_the_real_sample_is_read(shared_data):
    folder = HC18.find(shared_data)
    assert folder == shared_data / "hc18"
    scan = HC18.scan(folder)
    training = [r for r in scan.records if r.official_split is Split.TRAIN]
    assert len(scan.records) == HC18.published_pictures == 1334
    assert len(training) == 999
    assert len({r.group for r in training}) == 806
    assert sum(r.is_present for r in training) == sum(bool(r.structures) for r in training) == 16
    assert sum(r.is_present for r in scan.records) == 24
    assert scan.warnings == []
    assert box_of(by_id(scan)["training_set/010_HC.png"]) == (217, 95, 482, 406)
