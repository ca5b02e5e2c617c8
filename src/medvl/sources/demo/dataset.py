"""Write the demo dataset to disk, whole or not at all.

Layout of the folder:

    demo.json      version, seed and settings it was written with
    README.txt     what the folder holds
    pictures/      P000_00.png ...                 grey, 8 bit
    masks/         P000_00_skull.png ...           one file a structure, 0 or 255, filled
    pictures.csv   picture, patient, style, plane, conformity, orientation, diagnosis ("" where not asked)
    masks.csv      picture, structure, mask
"""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2

from medvl.errors import StorageError
from medvl.sources.demo.picture import draw_picture
from medvl.sources.demo.plan import PicturePlan, plan_dataset

DATASET_VERSION = 2
"""Raised whenever the same seed no longer gives the same bytes."""

DEFAULT_PATIENTS = 400
"""About 2,400 pictures and 6,000 items."""

PICTURE_COLUMNS = ("picture", "patient", "style", "plane", "conformity", "orientation", "diagnosis")
MASK_COLUMNS = ("picture", "structure", "mask")

_README = """\
Drawn pictures that look like ultrasound. No patient was scanned; every picture comes from a random number generator.

pictures/      grey pictures, 8 bit
masks/         one file a marked structure, 255 inside and 0 outside
pictures.csv   one row a picture; an empty cell means that the picture is not asked for it
               style        clinical or phantom
               plane        which plane is seen
               conformity   conforming: the outline closes all round and the plane's landmark is seen
               orientation  hd/hu: head down/up, vb/vf: back toward/away from the probe (on the right of these pictures)
               diagnosis    normal: no lesion; benign: round cyst with a rim; malignant: bright mass with spikes
masks.csv      one row a mask
demo.json      version, seed and number of patients
"""


def write_demo_dataset(
    folder: Path,
    *,
    seed: int = 0,
    patients: int = DEFAULT_PATIENTS,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Draw the dataset and put it at `folder`, replacing a demo dataset that is already there.

    Everything is first written to a temporary folder beside `folder`, then renamed, so an interrupted write leaves
    nothing half done. The same seed gives the same bytes with the same versions of numpy and OpenCV.

    Args:
        folder: Where the dataset goes.
        seed: Seed of every random number.
        patients: Number of patients, 5 to 7 pictures each.
        progress: Called with (pictures written, pictures in total).

    Raises:
        StorageError: `folder` holds something else, or the disk refuses the write.
    """
    if folder.exists() and not (folder / "demo.json").is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(
            f"The demo dataset was to be written to {folder}, but that already holds something else (no demo.json in "
            "it). Nothing was changed. Name an empty or new folder."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise _refused(folder, error) from error
    try:
        _write_all(draft, seed, patients, progress)
        draft.chmod(0o755)  # a temporary folder is private; the dataset is not
        _swap(draft, folder)
    except OSError as error:
        raise _refused(folder, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def demo_is_current(folder: Path, *, seed: int = 0, patients: int = DEFAULT_PATIENTS) -> bool:
    """Whether `folder` holds the demo dataset of this version, seed and size."""
    try:
        found = json.loads((folder / "demo.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(found == _settings(seed, patients))


def _settings(seed: int, patients: int) -> dict[str, int]:
    return {"version": DATASET_VERSION, "seed": seed, "patients": patients}


def _write_all(draft: Path, seed: int, patients: int, progress: Callable[[int, int], None] | None) -> None:
    (draft / "pictures").mkdir()
    (draft / "masks").mkdir()
    plans = plan_dataset(seed, patients)
    mask_rows: list[tuple[str, ...]] = []
    for done, plan in enumerate(plans, start=1):
        mask_rows += _write_picture(draft, plan)
        if progress is not None:
            progress(done, len(plans))
    _write_csv(draft / "pictures.csv", PICTURE_COLUMNS, [_picture_row(plan) for plan in plans])
    _write_csv(draft / "masks.csv", MASK_COLUMNS, mask_rows)
    (draft / "README.txt").write_text(_README, encoding="utf-8")
    (draft / "demo.json").write_text(json.dumps(_settings(seed, patients), indent=2) + "\n", encoding="utf-8")


def _write_picture(draft: Path, plan: PicturePlan) -> list[tuple[str, ...]]:
    """Draw and write one picture with its masks. Returns its rows of masks.csv."""
    drawn = draw_picture(plan)
    picture = _picture_name(plan)
    _write_png(draft / picture, drawn.grey)
    rows: list[tuple[str, ...]] = []
    for structure, mask in drawn.masks.items():
        name = f"masks/{plan.stem}_{structure.replace(' ', '_')}.png"
        _write_png(draft / name, mask)
        rows.append((picture, structure, name))
    return rows


def _write_png(path: Path, grey: cv2.typing.MatLike) -> None:
    _, data = cv2.imencode(".png", grey)
    path.write_bytes(data.tobytes())


def _picture_name(plan: PicturePlan) -> str:
    return f"pictures/{plan.stem}.png"


def _picture_row(plan: PicturePlan) -> tuple[str, ...]:
    return (
        _picture_name(plan),
        plan.patient_id,
        plan.domain.value,
        plan.plane,
        plan.conformity,
        plan.orientation,
        plan.diagnosis,
    )


def _write_csv(path: Path, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _swap(draft: Path, folder: Path) -> None:
    """Put `draft` in the place of `folder`; the old one is gone only once the new one stands."""
    if not folder.exists():
        draft.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    folder.rename(old / folder.name)
    draft.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _refused(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"The demo dataset could not be written to {folder}: {error.strerror or error}. It needs about 60 MB on a disk "
        "that can be written to. Free some space or name another folder."
    )
