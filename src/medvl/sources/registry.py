"""All sources by name."""

from __future__ import annotations

from medvl.config.nearest import or_what
from medvl.sources.acouslic_ai import ACOUSLIC_AI
from medvl.sources.african_planes import AFRICAN_PLANES
from medvl.sources.chestxray14 import CHESTXRAY14
from medvl.sources.demo.source import DEMO
from medvl.sources.fass import FASS
from medvl.sources.fetal_planes_db import FETAL_PLANES_DB
from medvl.sources.fetus_framework import FETUS_FRAMEWORK
from medvl.sources.fh_ps_aop import FH_PS_AOP
from medvl.sources.focus import FOCUS
from medvl.sources.fpus23 import FPUS23
from medvl.sources.hc18 import HC18
from medvl.sources.head_biometry import HEAD_BIOMETRY
from medvl.sources.iugc2024 import IUGC2024
from medvl.sources.jnu_ifm import JNU_IFM
from medvl.sources.pbf_us1 import PBF_US1
from medvl.sources.psfhs import PSFHS
from medvl.sources.record import Source
from medvl.sources.siim_acr import SIIM_ACR
from medvl.sources.ultrasound_fetus import ULTRASOUND_FETUS

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        DEMO,
        FETAL_PLANES_DB,
        FPUS23,
        AFRICAN_PLANES,
        PBF_US1,
        ULTRASOUND_FETUS,
        FETUS_FRAMEWORK,
        HC18,
        FASS,
        FOCUS,
        HEAD_BIOMETRY,
        PSFHS,
        FH_PS_AOP,
        JNU_IFM,
        ACOUSLIC_AI,
        IUGC2024,
        CHESTXRAY14,
        SIIM_ACR,
    )
}
"""Name in configurations -> source, in the order of tables."""


def unknown_sources(names: list[str]) -> list[str]:
    """A sentence for each name that is no source."""
    return [f"'{name}' is no source{or_what(name, SOURCES)}" for name in names if name not in SOURCES]
