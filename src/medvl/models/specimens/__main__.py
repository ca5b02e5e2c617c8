"""Build specimens: `python -m medvl.models.specimens [--out DIR] [NAME...]`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from medvl.errors import MedvlError
from medvl.models.specimens import SPECIMENS, build_specimen, specimen_folder


def main() -> int:
    """Parse the command line and build, one line of output each.

    Returns:
        Exit code: 0, or that of the last specimen that could not be built.
    """
    parser = argparse.ArgumentParser(prog="python -m medvl.models.specimens", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one or several of {', '.join(SPECIMENS)}; all if none"
    )
    parser.add_argument(
        "--out", type=Path, help="folder to write NAME/ into; the cache that `specimen:NAME` uses if none"
    )
    args = parser.parse_args()
    code = 0
    for name in args.names or SPECIMENS:
        start = time.perf_counter()
        try:
            folder = specimen_folder(name) if args.out is None else build_specimen(name, args.out / name)
        except MedvlError as error:
            print(error, file=sys.stderr, flush=True)
            code = error.exit_code
        else:
            size = sum(file.stat().st_size for file in folder.iterdir())
            print(f"{name}: {folder}, {size / 1e6:.1f} MB, {time.perf_counter() - start:.1f} s", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
