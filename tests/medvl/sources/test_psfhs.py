import json

import numpy as np
import pytest
import SimpleITK
from mini_fh_ps_aop import write_mini_fh_ps_aop
from mini_psfhs import write_mini_psfhs
from mini_symphysis_head import BOXES, PSFHS_NUMBERS, SIZE, write_pairs

from medvl.benchmark.groups import normalise_group
from medvl.sources.psfhs import PSFHS
from medvl.sources.record import Domain


@pytest.fixture
def mini_psfhs(tmp_path):
    return write_mini_psfhs(tmp_path / "root")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def test_every_pair_gives_a_record_in_order_of_the_numbers(mini_psfhs):
    scan = PSFHS.scan(mini_psfhs)
    assert [record.record_id for record in scan.records] == [f"image_mha/{n:05d}.mha" for n in PSFHS_NUMBERS]
    assert scan.warnings == []
    assert all(r.source == "psfhs" and r.domain is Domain.CLINICAL and r.is_present for r in scan.records)
    assert all(r.official_split is None and not r.labels for r in scan.records)


def test_the_levels_mark_symphysis_and_head(mini_psfhs):
    for record in PSFHS.scan(mini_psfhs).records:
        assert [s.label for s in record.structures] == ["pubic symphysis", "fetal head"]
        for structure in record.structures:
            mask = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(structure.mask.path)))
            assert mask.shape == (SIZE, SIZE)
            ys, xs = np.nonzero(mask == structure.mask.value)
            assert (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) == BOXES[structure.label]


def test_neighbouring_numbers_share_a_group(mini_psfhs):
    groups = {r.record_id[10:15]: normalise_group("psfhs", r.group, r.where) for r in PSFHS.scan(mini_psfhs).records}
    assert groups["03744"] == groups["03745"] == groups["03759"]
    assert len(set(groups.values())) == 3


def test_a_mask_without_a_picture_is_an_absent_picture(mini_psfhs):
    (mini_psfhs / "image_mha/03745.mha").unlink()
    record = by_id(PSFHS.scan(mini_psfhs))["image_mha/03745.mha"]
    assert not record.is_present
    assert record.picture == mini_psfhs / "image_mha/03745.mha"


def test_a_picture_without_a_mask_is_named(mini_psfhs):
    (mini_psfhs / "label_mha/03745.mha").unlink()
    scan = PSFHS.scan(mini_psfhs)
    assert by_id(scan)["image_mha/03745.mha"].structures == ()
    assert "1 picture (image_mha/03745.mha) without a mask" in scan.warnings[0]


def test_foreign_names_are_left_out_and_upper_case_is_found(mini_psfhs):
    (mini_psfhs / "image_mha/03745.mha").rename(mini_psfhs / "image_mha/03745.MHA")
    (mini_psfhs / "label_mha/notes.txt").touch()
    scan = PSFHS.scan(mini_psfhs)
    assert by_id(scan)["image_mha/03745.mha"].is_present
    assert "1 file (notes.txt) not named as" in scan.warnings[0]


def test_an_archive_that_was_not_unpacked_is_named(mini_psfhs):
    (mini_psfhs / "label_mha").rename(mini_psfhs.parents[1] / "elsewhere")
    (mini_psfhs / "label_mha.zip").touch()
    warnings = PSFHS.scan(mini_psfhs).warnings
    assert any(f"label_mha.zip is not unpacked: expected the folder {mini_psfhs / 'label_mha'}" in w for w in warnings)


def test_it_is_told_from_the_other_dataset_by_the_names_of_folders(mini_psfhs):
    root = mini_psfhs.parent
    write_mini_fh_ps_aop(root)
    assert PSFHS.find(root) == PSFHS.find(mini_psfhs) == mini_psfhs


def test_it_is_told_from_the_other_dataset_by_its_numbers(tmp_path):
    write_pairs(tmp_path / "a", (1, 3800))
    home = write_pairs(tmp_path / "b" / "challenge", (3744, 4100))
    assert PSFHS.find(tmp_path) == home
    assert PSFHS.find(tmp_path / "a") is None


def test_numbers_of_the_real_test_list_lie_in_its_range(shared_data):
    names = json.loads((shared_data / "psfhs/ultrabench_split_test.json").read_text())
    numbers = sorted(int(name["image"].removeprefix("images/").removesuffix(".png")) for name in names)
    assert len(numbers) == len(set(numbers))
    assert numbers[0] >= 3744
    assert numbers[-1] <= 5101
    assert PSFHS.published_pictures == 5101 - 3744 + 1
