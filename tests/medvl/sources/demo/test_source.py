import shutil

import pytest

from medvl.errors import DataError
from medvl.sources.demo import DEMO, write_demo_dataset
from medvl.sources.demo.plan import plan_dataset
from medvl.sources.record import Domain, Task


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "inner" / "dataset"
    write_demo_dataset(folder, patients=4)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    return shutil.copytree(written, tmp_path / "copy")


def _edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_records_are_what_was_planned(written):
    records, plans = DEMO.scan(written).records, plan_dataset(0, 4)
    assert len(records) == len(plans)
    for record, plan in zip(records, plans, strict=True):
        asked = {
            Task.PI: plan.plane,
            Task.VC: plan.conformity,
            Task.FO: plan.orientation,
            Task.CD: plan.diagnosis,
        }
        assert record.labels == {task: label for task, label in asked.items() if label}
        assert (record.group, record.domain) == (plan.patient_id, plan.domain)
        assert record.record_id == f"pictures/{plan.stem}.png"
        assert record.is_present
        assert record.official_split is None
    assert records[0].where == "pictures.csv row 2"


def test_every_task_and_both_domains_are_fed(written):
    records = DEMO.scan(written).records
    fed = {task for record in records for task in record.labels}
    assert fed | {Task.VG} == set(DEMO.tasks) == set(Task) - {Task.FD}
    assert any(record.structures for record in records)
    assert {record.domain for record in records} == set(Domain)


def test_structures_point_at_filled_masks(written):
    structures = [s for record in DEMO.scan(written).records for s in record.structures]
    assert len(structures) == len(list((written / "masks").iterdir()))
    for structure in structures:
        assert structure.mask.path.is_file()
        assert structure.mask.value is None
        assert not structure.mask.is_outline
        assert structure.bbox_xyxy_px is None


def test_the_source_is_large_enough_to_be_split():
    assert DEMO.name == "demo"
    assert DEMO.published_pictures == len(plan_dataset(0, 400)) >= 500
    assert not DEMO.has_usable_official_split


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_it_is_found_up_to_two_levels_down(written, depth):
    root = (written, written.parent, written.parent.parent)[depth]
    assert DEMO.find(root) == written


def test_it_is_not_found_where_it_is_not(tmp_path):
    (tmp_path / "demo.json").write_text("{}")
    assert DEMO.find(tmp_path) is None
    with pytest.raises(DataError, match="data root"):
        DEMO.find(tmp_path / "absent")


def test_a_listed_picture_that_is_absent_is_kept_as_absent(folder):
    record = next(r for r in DEMO.scan(folder).records if r.structures)
    record.picture.unlink()
    for structure in record.structures:
        structure.mask.path.unlink()
    after = {r.record_id: r.is_present for r in DEMO.scan(folder).records}
    assert [name for name, is_present in after.items() if not is_present] == [record.record_id]


def test_a_missing_mask_is_an_error_naming_its_row(folder):
    next(r for r in DEMO.scan(folder).records if r.structures).structures[0].mask.path.unlink()
    with pytest.raises(DataError, match=r"masks\.csv row 2: the mask file"):
        DEMO.scan(folder)


@pytest.mark.parametrize(
    ("table", "old", "new", "message"),
    [
        ("pictures.csv", "orientation", "pose", r"pictures\.csv: expected column\(s\) .orientation."),
        ("masks.csv", "structure", "organ", r"masks\.csv: expected column\(s\) .structure."),
        ("pictures.csv", ",clinical,", ",xray,", r"pictures\.csv row \d+: style is 'xray'"),
        ("pictures.csv", ",non-conforming,", ",maybe,", r"pictures\.csv row \d+: conformity is 'maybe'"),
        ("pictures.csv", "P000_01", "P000_00", r"pictures\.csv row 3: .*second time"),
        ("pictures.csv", ",P000,", ",P000,extra,", r"pictures\.csv row 2: expected 7 fields"),
        ("pictures.csv", ",P000,", ",,", r"pictures\.csv row 2: .*patient"),
        ("masks.csv", "pictures/P0", "pictures/X0", r"masks\.csv row 2: 'pictures/X0"),
        ("masks.csv", "masks/P0", "../masks/P0", r"masks\.csv row 2: .*outside"),
    ],
)
def test_a_broken_table_is_an_error_naming_file_and_row(folder, table, old, new, message):
    _edit(folder / table, old, new)
    with pytest.raises(DataError, match=message):
        DEMO.scan(folder)


@pytest.mark.parametrize("table", ["pictures.csv", "masks.csv"])
def test_a_missing_table_is_an_error(folder, table):
    (folder / table).unlink()
    with pytest.raises(DataError, match=table):
        DEMO.scan(folder)


def test_a_table_without_rows_is_an_error(folder):
    header = (folder / "pictures.csv").read_text(encoding="utf-8").splitlines()[0]
    (folder / "pictures.csv").write_text(header + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="found none"):
        DEMO.scan(folder)


def test_a_table_that_is_not_text_is_an_error(folder):
    (folder / "pictures.csv").write_bytes(b"\x89PNG\x00")
    with pytest.raises(DataError, match=r"pictures\.csv"):
        DEMO.scan(folder)
