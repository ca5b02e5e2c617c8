"""Build the tiny checkpoint: `python -m medvl.models.tiny --out DIR`."""

from __future__ import annotations

import argparse
from pathlib import Path

from medvl.models.tiny.architecture import TinySize
from medvl.models.tiny.curriculum import PARTS, Plan
from medvl.models.tiny.export import export_checkpoint
from medvl.models.tiny.pretrain import pretrain_part


def main() -> None:
    """Parse the command line, pretrain, export."""
    parser = argparse.ArgumentParser(prog="python -m medvl.models.tiny", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for states, curves and the checkpoint")
    parser.add_argument("--part", choices=PARTS, help="run one part only, after those before it")
    parser.add_argument("--resume", action="store_true", help="go on from the states in --out")
    parser.add_argument("--stop-after-steps", type=int, help="stop the part early, for a look at the result so far")
    args = parser.parse_args()
    for part in [args.part] if args.part else PARTS:
        pretrain_part(
            args.out,
            part,
            Plan(),
            TinySize(),
            resume=args.resume,
            stop_after_steps=args.stop_after_steps,
            report=lambda line: print(line, flush=True),
        )
    digest = export_checkpoint(args.out, args.out / "checkpoint", Plan(), TinySize())
    print(f"{args.out / 'checkpoint'}: weights {digest}")


if __name__ == "__main__":
    main()
