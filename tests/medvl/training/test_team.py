"""Processes that share an evaluation: each item is one process's, and all of them come back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mini_items import make_item

from medvl.errors import ConfigError, TeamError
from medvl.training import team
from medvl.training.team import ALONE, Team, join_team

FOUR = """
import sys
sys.path.append(sys.argv[1])
from mini_items import make_item
from pathlib import Path
from rich.console import Console
from medvl.training.team import joined_team

with joined_team(Path("run"), Console()) as (team, folder):
    assert (folder == Path("run")) == team.leads
    with team.leader_first():
        assert team.leads or Path("built").exists()
        Path("built").touch()
    items = [make_item(number=i, sha256_pixels=str(i // 3)) for i in range(101)]
    mine = team.share(items)
    found = team.gathered([item.item_id for item in mine])
    assert sorted(found) == sorted(item.item_id for item in items), found
    assert team.agreed(team.rank) == 0
    sizes = team.gathered([len(mine)])
    if team.leads:
        print(sizes)
"""


def items_of(pictures):
    return [make_item(number=number, sha256_pixels=str(picture)) for number, picture in enumerate(pictures)]


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 5))
def test_every_item_is_one_processs_and_pictures_stay_whole(pictures, size):
    items = items_of(pictures)
    shares = [Team(rank, size).share(items) for rank in range(size)]
    assert sorted(item.item_id for share in shares for item in share) == sorted(item.item_id for item in items)
    where = [{item.sha256_pixels for item in share} for share in shares]
    assert sum(map(len, where)) == len(set(pictures))
    for share in shares:
        assert [item.item_id for item in share] == [item.item_id for item in items if item in share]


def test_shares_have_about_one_size():
    sizes = [len(Team(rank, 4).share(items_of(i // 3 for i in range(101)))) for rank in range(4)]
    assert max(sizes) - min(sizes) <= 3


def test_what_must_not_be_parted_is_the_first_ones():
    items = items_of([1, 2, 3])
    assert [Team(rank, 3).share(items, whole=True) for rank in range(3)] == [items, [], []]


def test_alone_everything_is_its_own(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    items = items_of([1, 1, 2])
    assert join_team() == ALONE
    assert ALONE.share(items) == ALONE.gathered(items) == items
    assert ALONE.agreed("x") == "x"
    assert ALONE.leads


def test_a_team_that_cannot_be_found_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(ConfigError, match=r"MASTER_ADDR.* is absent: start the processes with torchrun"):
        join_team()


@pytest.mark.parametrize("call", [lambda two: two.agreed(1), lambda two: two.gathered([1])])
def test_a_process_that_is_gone_is_told_in_one_sentence(call, monkeypatch):
    def closed(*args, **options):
        raise RuntimeError("[pair.cc:561] Connection closed by peer")

    monkeypatch.setattr(team.dist, "broadcast_object_list", closed)
    monkeypatch.setattr(team.dist, "all_gather_object", closed)
    with pytest.raises(TeamError, match="another process of this evaluation ended, see its message"):
        call(Team(1, 2))


@pytest.mark.slow
def test_four_processes_share_101_items(tmp_path):
    script = tmp_path / "four.py"
    script.write_text(FOUR)
    fixtures = Path(__file__).resolve().parents[2] / "fixtures"
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    done = subprocess.run(
        [*start, str(script), str(fixtures)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    sizes = json.loads(done.stdout)
    assert (len(sizes), sum(sizes)) == (4, 101)
