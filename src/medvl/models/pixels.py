"""How large a picture the processor makes: the one place where pixel and tile limits are set."""

from __future__ import annotations

from typing import Any

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.families import Family


def limit_pixels(processor: Any, family: Family, config: ModelConfig) -> None:
    """Put the limits of the configuration into a processor; training, scoring and token counts all read them there.

    Args:
        processor: The model's processor; changed in place.
        family: Its architecture.
        config: Limits that are None leave the processor as it is.

    Raises:
        ModelError: A limit that the architecture does not have.
    """
    images = processor.image_processor
    if config.min_pixels is not None or config.max_pixels is not None:
        if family.abilities.resolution != "free":
            raise ModelError(_no_such_limit(config, family, "min_pixels and max_pixels", "free"))
        size = images.size
        fewest = config.min_pixels if config.min_pixels is not None else size["shortest_edge"]
        most = config.max_pixels if config.max_pixels is not None else size["longest_edge"]
        if fewest > most:
            raise ModelError(
                f"model {config.name}: min_pixels {fewest} is above max_pixels {most}; the processor's own limits are "
                f"{size['shortest_edge']} and {size['longest_edge']}"
            )
        images.size = {"shortest_edge": fewest, "longest_edge": most}  # areas in pixels, in spite of the names
    if config.max_tiles is not None:
        if family.limit_tiles is None:
            raise ModelError(_no_such_limit(config, family, "max_tiles", "tiles"))
        family.limit_tiles(images, config.max_tiles)


def _no_such_limit(config: ModelConfig, family: Family, setting: str, resolution: str) -> str:
    return (
        f"model.{setting}: {config.name} ({family.title}) has no such limit, its pictures are of "
        f"{family.abilities.resolution} resolution; leave it out (for {resolution} resolution only)"
    )
