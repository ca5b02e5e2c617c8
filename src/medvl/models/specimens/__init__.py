"""Specimens: tiny random checkpoints of the architectures that medvl supports, complete with processor and template.

They have the true transformers classes, control tokens, chat templates and picture handling of the families, a few
megabytes each, and know nothing: made for trying a family out, and for tests, where the real weights cannot be had.
"""

from medvl.models.specimens.catalogue import SPECIMENS, build_specimen, specimen_folder

__all__ = ["SPECIMENS", "build_specimen", "specimen_folder"]
