import pytest
from mini_symphysis_head import FH_PS_AOP_FOLDER, write_pairs

from medvl.errors import DataError
from medvl.sources.record import MaskFile
from medvl.sources.symphysis_head import find_pairs, scan_pairs


@pytest.mark.parametrize(
    ("folder", "numbers", "name"),
    [
        ("PSFHS", (3744,), "psfhs"),
        (FH_PS_AOP_FOLDER, (3744,), "fh_ps_aop"),
        (f"psfhs/{FH_PS_AOP_FOLDER}", (1,), "fh_ps_aop"),
        ("FH-PS-AOP/PSFHS", (1,), "psfhs"),
        ("a/b", (3744, 5101), "psfhs"),
        ("a/b", (3743, 3744), "fh_ps_aop"),
    ],
)
def test_the_closest_name_tells_the_dataset_and_without_a_name_the_numbers(tmp_path, folder, numbers, name):
    home = write_pairs(tmp_path / "root" / folder, numbers)
    found = {other: find_pairs(tmp_path / "root", other) for other in ("psfhs", "fh_ps_aop")}
    assert found == {"psfhs": None, "fh_ps_aop": None} | {name: home}


def test_names_above_the_data_root_say_nothing(tmp_path):
    home = write_pairs(tmp_path / "psfhs" / "root" / "pictures", (1, 2))
    assert find_pairs(tmp_path / "psfhs" / "root", "fh_ps_aop") == home


def test_a_link_out_of_the_root_is_refused_for_the_dataset_behind_it(tmp_path):
    write_pairs(tmp_path / "outside", (3744,))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "PSFHS").symlink_to(tmp_path / "outside")
    with pytest.raises(DataError, match=r"root/PSFHS: expected a dataset .* a link that leads out of it"):
        find_pairs(tmp_path / "root", "psfhs")
    assert find_pairs(tmp_path / "root", "fh_ps_aop") is None


def test_groups_are_runs_of_numbers_and_do_not_depend_on_what_is_there(tmp_path):
    whole = scan_pairs(write_pairs(tmp_path / "a", range(8, 15)), "psfhs", 5)
    part = scan_pairs(write_pairs(tmp_path / "b", (9, 12)), "psfhs", 5)
    groups = {record.record_id: record.group for record in whole.records}
    assert [list(groups.values()).count(group) for group in dict.fromkeys(groups.values())] == [2, 5]
    assert [record.group for record in part.records] == [groups[record.record_id] for record in part.records]


def test_each_mask_is_named_with_the_level_of_each_structure(tmp_path):
    home = write_pairs(tmp_path, (1,))
    (record,) = scan_pairs(home, "fh_ps_aop", 100).records
    mask = home / "label_mha/00001.mha"
    assert [s.mask for s in record.structures] == [MaskFile(mask, 1), MaskFile(mask, 2)]


def test_pictures_are_not_opened(tmp_path):
    home = write_pairs(tmp_path, (1,))
    for path in home.glob("*/*.mha"):
        path.write_bytes(b"damaged")
    assert len(scan_pairs(home, "fh_ps_aop", 100).records[0].structures) == 2
