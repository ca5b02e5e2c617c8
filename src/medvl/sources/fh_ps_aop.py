"""FH-PS-AOP: pubic symphysis and fetal head, training set of the challenge of 2023. Layout: see `symphysis_head`."""

from __future__ import annotations

from functools import partial

from medvl.sources.record import Source, Task
from medvl.sources.symphysis_head import find_pairs, scan_pairs

NEIGHBOURS = 100
"""Pictures a group: above the 80 frames that a video of JNU-IFM has on average, where most of these come from."""


FH_PS_AOP = Source(
    name="fh_ps_aop",
    title="FH-PS-AOP: Pubic symphysis-fetal head segmentation and angle of progression",
    homepage="https://zenodo.org/records/7851339",
    licence="not confirmed; see its home",
    is_redistributable=False,
    published_pictures=4000,
    group_rule="A hundred neighbouring numbers (00100.mha to 00199.mha): no patient and no video is named.",
    citation="Lu et al., The JNU-IFM dataset for segmenting pubic symphysis-fetal head, Data in Brief 41: 107904, "
    "2022; Pubic Symphysis-Fetal Head Segmentation and Angle of Progression, Zenodo, doi:10.5281/zenodo.7851339",
    tasks=(Task.VG,),
    find=partial(find_pairs, source="fh_ps_aop"),
    scan=partial(scan_pairs, source="fh_ps_aop", neighbours=NEIGHBOURS),
    flaws=(
        "Pictures are frames of videos that are not named. Neighbouring numbers stay together, but frames of one video "
        "may lie on two sides of the split.",
        "The counts suggest that numbers 1 to 3743 are the frames of JNU-IFM that show both structures, at another "
        "size, and that numbers 3744 to 4000 are in PSFHS too.",
    ),
)
"""The source. It publishes no split."""
