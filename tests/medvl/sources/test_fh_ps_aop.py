import pytest
from mini_fh_ps_aop import write_mini_fh_ps_aop
from mini_psfhs import write_mini_psfhs
from mini_symphysis_head import FH_PS_AOP_NUMBERS, write_pairs

from medvl.benchmark.groups import normalise_group
from medvl.sources.fh_ps_aop import FH_PS_AOP
from medvl.sources.record import MaskFile


@pytest.fixture
def mini(tmp_path):
    return write_mini_fh_ps_aop(tmp_path / "root" / "downloads")


def test_every_pair_gives_a_record_with_both_structures(mini):
    scan = FH_PS_AOP.scan(mini)
    assert [record.record_id for record in scan.records] == [f"image_mha/{n:05d}.mha" for n in FH_PS_AOP_NUMBERS]
    assert {record.source for record in scan.records} == {"fh_ps_aop"}
    mask = mini / "label_mha/00099.mha"
    found = {s.label: s.mask for s in scan.records[2].structures}
    assert found == {"pubic symphysis": MaskFile(mask, 1), "fetal head": MaskFile(mask, 2)}


def test_a_hundred_neighbouring_numbers_share_a_group(mini):
    records = FH_PS_AOP.scan(mini).records
    groups = {int(r.record_id[10:15]): normalise_group("fh_ps_aop", r.group, r.where) for r in records}
    assert groups[1] == groups[2] == groups[99] != groups[100]
    assert len(set(groups.values())) == 4


def test_it_is_told_from_the_other_dataset_by_the_names_of_folders(mini):
    root = mini.parents[1]
    write_mini_psfhs(root)
    assert FH_PS_AOP.find(root) == mini
    # Closer names come first: the folder of the dataset itself says what it is.
    assert FH_PS_AOP.find(mini) == mini


@pytest.mark.parametrize("name", ["FH-PS-AOP", "fh_ps_aop_2023", "JNU PSFH-AOP"])
def test_names_that_users_give_are_known(tmp_path, name):
    home = write_pairs(tmp_path / name, (3800, 3801))
    assert FH_PS_AOP.find(tmp_path) == home


def test_it_is_told_from_the_other_dataset_by_its_numbers(tmp_path):
    write_pairs(tmp_path / "a", (3744, 5000))
    home = write_pairs(tmp_path / "b", (12, 3900))
    assert FH_PS_AOP.find(tmp_path) == home


def test_a_root_without_it_has_none(tmp_path):
    assert FH_PS_AOP.find(tmp_path) is None
    (tmp_path / "image_mha").mkdir()
    assert FH_PS_AOP.find(tmp_path) is None
