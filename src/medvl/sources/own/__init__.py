"""Data of the user's own, and question files of others, used as they are."""

from medvl.sources.own.factory import make_source

__all__ = ["make_source"]
