"""What each drawn picture is asked to show: patients, their style, and the labels of their pictures.

Labels and nuisances come from separate random streams, so nothing about the look of a picture (gain, position, scale,
rotation, speckle, ticks) can depend on its label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from medvl.sources.record import Domain

PLANES = ("fetal head", "fetal abdomen", "fetal femur", "fetal thorax")
CONFORMITIES = ("conforming", "non-conforming")
ORIENTATIONS = ("hdvb", "hdvf", "huvb", "huvf")
DIAGNOSES = ("normal", "benign", "malignant")

PHANTOM_SHARE = 0.35
FETUS_SHARE = 0.5
"""Share of pictures that show the whole fetus (asked for its orientation); the rest show a plane."""
CONFORMITY_ASKED_SHARE = 0.72
DIAGNOSIS_ASKED_SHARE = 0.72
PICTURES_PER_PATIENT = (5, 8)
"""Lower bound inclusive, upper bound exclusive."""

_LABEL_STREAM, _PATIENT_STREAM, _LOOK_STREAM = 1, 2, 3


@dataclass(frozen=True, slots=True)
class PicturePlan:
    """One picture to draw.

    Attributes:
        seed: Seed of the dataset.
        patient: Patient number, from 0.
        picture: Number of the picture within the patient, from 0.
        domain: Style of all pictures of the patient.
        plane: One of `PLANES`, or "" for a picture of the whole fetus.
        conformity: One of `CONFORMITIES`, or "" where not asked (a conforming view is drawn).
        orientation: One of `ORIENTATIONS` for a picture of the whole fetus, else "".
        diagnosis: One of `DIAGNOSES`, or "" where not asked (no lesion is drawn).
    """

    seed: int
    patient: int
    picture: int
    domain: Domain
    plane: str
    conformity: str
    orientation: str
    diagnosis: str

    @property
    def patient_id(self) -> str:
        """Patient as the dataset writes it."""
        return f"P{self.patient:03d}"

    @property
    def stem(self) -> str:
        """File name without ending."""
        return f"{self.patient_id}_{self.picture:02d}"

    def patient_rng(self) -> np.random.Generator:
        """Random stream shared by all pictures of the patient (device, tissue)."""
        return np.random.default_rng([self.seed, self.patient, _PATIENT_STREAM])

    def look_rng(self) -> np.random.Generator:
        """Random stream of this picture alone (pose, gain, speckle). Not used for any label."""
        return np.random.default_rng([self.seed, self.patient, self.picture, _LOOK_STREAM])


def plan_patient(seed: int, patient: int) -> list[PicturePlan]:
    """Draw the labels of one patient's pictures.

    Args:
        seed: Seed of the dataset.
        patient: Patient number, from 0.

    Returns:
        5 to 7 plans. Labels of different tasks are independent and uniform over their values.
    """
    rng = np.random.default_rng([seed, patient, _LABEL_STREAM])
    domain = Domain.PHANTOM if rng.random() < PHANTOM_SHARE else Domain.CLINICAL
    plans = []
    for picture in range(int(rng.integers(*PICTURES_PER_PATIENT))):
        is_fetus = rng.random() < FETUS_SHARE
        asks_conformity = not is_fetus and rng.random() < CONFORMITY_ASKED_SHARE
        asks_diagnosis = not is_fetus and rng.random() < DIAGNOSIS_ASKED_SHARE
        plans.append(
            PicturePlan(
                seed=seed,
                patient=patient,
                picture=picture,
                domain=domain,
                plane="" if is_fetus else str(rng.choice(PLANES)),
                conformity=str(rng.choice(CONFORMITIES)) if asks_conformity else "",
                orientation=str(rng.choice(ORIENTATIONS)) if is_fetus else "",
                diagnosis=str(rng.choice(DIAGNOSES)) if asks_diagnosis else "",
            )
        )
    return plans


def plan_dataset(seed: int, patients: int) -> list[PicturePlan]:
    """Draw the labels of the first `patients` patients, in patient order.

    A patient's pictures do not depend on how many patients there are.
    """
    return [plan for patient in range(patients) for plan in plan_patient(seed, patient)]
