"""PSFHS: pubic symphysis and fetal head, intrapartum ultrasound (Chen et al., 2024). Layout: see `symphysis_head`."""

from __future__ import annotations

from functools import partial

from medvl.sources.record import Source, Task
from medvl.sources.symphysis_head import find_pairs, scan_pairs

NEIGHBOURS = 20
"""Pictures a group: far above the 1.2 pictures that a woman has on average."""


PSFHS = Source(
    name="psfhs",
    title="PSFHS: Intrapartum ultrasound dataset for pubic symphysis-fetal head segmentation",
    homepage="https://zenodo.org/records/10969427",
    licence="CC BY 4.0",
    is_redistributable=True,
    published_pictures=1358,
    group_rule="Twenty neighbouring numbers (03760.mha to 03779.mha): no patient is named.",
    citation="Chen et al., PSFHS: Intrapartum ultrasound image dataset for AI-based segmentation of pubic symphysis "
    "and fetal head, Scientific Data 11: 436, 2024",
    tasks=(Task.VG,),
    find=partial(find_pairs, source="psfhs"),
    scan=partial(scan_pairs, source="psfhs", neighbours=NEIGHBOURS),
    flaws=(
        "The 1,358 pictures come from 1,124 women who are not named. Neighbouring numbers stay together, because "
        "pictures of one woman are likely to be neighbours; that no woman is on two sides cannot be shown.",
        "Its first 257 numbers (03744 to 04000) are in FH-PS-AOP too, as the counts of the challenge suggest.",
    ),
)
"""The source. It publishes no split."""
