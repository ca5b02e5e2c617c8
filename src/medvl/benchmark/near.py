"""Near-identical pictures: re-encoded, resized, cropped, brightened or annotated copies, and neighbouring frames.

Every picture is reduced once to a small square of texture: grey minus its local mean, over its local spread, inside
the content only, so that the dark surroundings and the fan that ultrasound pictures share are no likeness. Of this
square and of windows into it (what a crop would have left) 64-bit codes are taken: signs of cosine coefficients, as in
pHash. Pictures whose codes agree in one of several samples of their bits (locality-sensitive hashing, Indyk and
Motwani, STOC 1998) are compared in full: window by window, then aligned by Gauss-Newton steps over shift and scale
(Lucas and Kanade, IJCAI 1981).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from medvl.errors import DataError

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Texture = npt.NDArray[np.int8]
Codes = npt.NDArray[np.uint64]

SIGNATURE_VERSION = 1
"""Raised whenever the same pixels no longer give the same signature. Belongs into the key of any cache of them."""

NEAR_CORRELATION = 0.8
"""Pairs at least this alike are reported; `benchmarks/near_duplicates.py` measures both sides of it.

One change (re-encoding, resize, 5 % crop, brightness, gamma, text) left .87 or more on 113 real pictures, all changes
at once .76; different patients reached .41 (ultrasound) and .68 (chest).
"""

SIDE_PX = 64
"""Side of the texture."""

SIGNATURE_BYTES = 1 + 25 * 8 + SIDE_PX * SIDE_PX

_MEAN_PX = 0.04 * SIDE_PX  # spread of the local mean: finer anatomy differs between patients, coarser is shared
_LEVELS = 8  # whole numbers in one local spread; the texture is cut off at three spreads
_AXIS_WINDOWS = ((0.0, 1.0), (0.0, 0.95), (0.05, 1.0), (0.025, 0.975), (0.05, 0.95))
_WINDOWS = np.array([(*x, *y) for y in _AXIS_WINDOWS for x in _AXIS_WINDOWS], dtype=np.float32)  # x0, x1, y0, y1
_MAX_CROP = 0.08  # how far the alignment may leave the whole picture on each side
_MIN_SPREAD = 0.05  # of the mean grey: what is flatter is noise, not texture
_BLANK_SHARE = 0.02  # a picture with texture in less of it is blank

_BITS, _TABLES = 16, 32  # sampled bits of a code, samples
_MAX_DISTANCE = 12  # bits in which the codes of copies may differ
_PER_BUCKET, _PER_GROUP = 24, 4  # pictures of one side, and of one group, that a bucket offers
_BUDGET = 48  # candidates from which a picture looks for no more
_MAX_RANK, _ENOUGH = 8, 4  # candidates of one side that a picture is compared with, near ones that suffice
_TRIED = 4  # windows of a pair that are tried
_PROMISING, _CLOSE = 0.2, 0.5  # correlation at half size from which aligning is worth it, and doing so in full
_SURE = 0.7  # correlation at half size from which aligning may be spared
_STEPS = 4  # of an alignment
_BATCH = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """What is kept of a picture to find copies of it.

    Attributes:
        codes: uint64 [25], one for each window, the whole picture first.
        texture: int8 [64, 64], the picture without local mean and spread; 0 outside its content.
    """

    codes: Codes
    texture: Texture

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to compare: a flat picture. Such pictures are near no other."""
        return int(np.count_nonzero(self.texture)) < _BLANK_SHARE * self.texture.size

    def to_bytes(self) -> bytes:
        """The signature as `SIGNATURE_BYTES` bytes."""
        return bytes([SIGNATURE_VERSION]) + self.codes.astype("<u8").tobytes() + self.texture.tobytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> Signature:
        """The signature that `to_bytes` wrote.

        Raises:
            DataError: The bytes are of another version or cut short.
        """
        if len(content) != SIGNATURE_BYTES or content[0] != SIGNATURE_VERSION:
            raise DataError(
                f"expected a picture signature of version {SIGNATURE_VERSION} with {SIGNATURE_BYTES} bytes, found "
                f"{len(content)} bytes of version {content[0] if content else 'none'}; delete the cache that holds it"
            )
        codes = np.frombuffer(content, "<u8", count=len(_WINDOWS), offset=1).astype(np.uint64)
        texture = np.frombuffer(content, np.int8, offset=1 + codes.nbytes)
        return cls(codes, texture.reshape(SIDE_PX, SIDE_PX))


def signature_of(pixels: npt.NDArray[np.uint8]) -> Signature:
    """Reduce a picture to its signature.

    Args:
        pixels: uint8 [H, W, 3], RGB.
    """
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    small = cv2.resize(grey, (SIDE_PX, SIDE_PX), interpolation=cv2.INTER_AREA).astype(np.float32)
    texture = np.rint(_LEVELS * _normalised(small)).astype(np.int8)
    basis = _basis()
    spectrum = basis @ texture.astype(np.float32) @ basis.T
    rows, columns = _frequencies()
    count, axis = rows.max() + 1, len(_AXIS_WINDOWS)
    by_window = spectrum.reshape(axis, count, axis, count).transpose(0, 2, 1, 3).reshape(-1, count, count)
    bits = np.ascontiguousarray(by_window[:, rows, columns] > 0)
    return Signature(np.packbits(bits, axis=1, bitorder="little").view("<u8")[:, 0].astype(np.uint64), texture)


def near_pairs(
    signatures: Sequence[Signature],
    group: Sequence[Any] | npt.NDArray[Any] | None = None,
    side: Sequence[Any] | npt.NDArray[Any] | None = None,
    threshold: float = NEAR_CORRELATION,
) -> list[tuple[int, int, float]]:
    """Find pairs of near-identical pictures.

    Args:
        signatures: One for each picture.
        group: Group of each picture; pairs within a group are left out. None: each picture for itself.
        side: Side of each picture; pairs on one side are left out. None: sides do not matter.
        threshold: Least correlation.

    Returns:
        (i, j, correlation) with i < j, in this order. Where very many pictures look alike (a still video), each of
        them is paired with some of the others, not with all.
    """
    kept = np.array([i for i, s in enumerate(signatures) if not s.is_blank], dtype=np.int64)
    if len(kept) < 2:
        return []
    groups = kept if group is None else np.unique(np.asarray(group), return_inverse=True)[1][kept]
    sides = None if side is None else np.unique(np.asarray(side), return_inverse=True)[1][kept]
    seen_from = np.zeros_like(groups) if sides is None else sides
    candidates = _candidates(np.stack([signatures[i].codes for i in kept]), groups, sides)
    rank = _ranked(candidates, seen_from)
    met = np.zeros((len(kept), int(seen_from.max()) + 1), dtype=np.int64)  # near pictures found, by their side
    found: list[tuple[int, int, float]] = []
    for turn in range(_MAX_RANK):
        whole, part = candidates.whole, candidates.part
        is_enough = np.minimum(met[whole, seen_from[part]], met[part, seen_from[whole]]) >= _ENOUGH
        due = np.flatnonzero((rank == turn) & ~is_enough)
        for start in range(0, len(due), _BATCH):
            some = candidates.chosen(due[start : start + _BATCH])
            outer, inner = (_textures(signatures, kept[i]) for i in (some.part, some.whole))
            alike = _correlations(outer, inner, some.windows, threshold)
            near = alike >= threshold
            np.add.at(met, (some.whole[near], seen_from[some.part[near]]), 1)
            np.add.at(met, (some.part[near], seen_from[some.whole[near]]), 1)
            low, high = np.sort(kept[np.stack([some.whole[near], some.part[near]])], axis=0).tolist()
            found += zip(low, high, np.minimum(alike[near], 1).tolist(), strict=True)
    return sorted(found)


def _textures(signatures: Sequence[Signature], chosen: Integers) -> Floats:
    return np.stack([signatures[i].texture for i in chosen]).astype(np.float32)


def _normalised(grey: Floats) -> Floats:
    """Grey minus local mean over local spread, both taken inside the content, cut off at three spreads."""
    mean = float(grey.mean()) + 1.0
    # Relative to the mean, so that brightness and gamma hardly change what is content. One pixel is taken off its rim:
    # the edge of the fan is no anatomy.
    content = np.clip((_blur(grey, 1.0) / mean - 0.1) / 0.6, 0.0, 1.0)
    content = cv2.erode(content, np.ones((3, 3), np.uint8))
    weight = _blur(content, _MEAN_PX) + 1e-3
    rest = (grey - _blur(grey * content, _MEAN_PX) / weight) * content / mean
    spread = np.sqrt(_blur(rest * rest, _MEAN_PX) / weight)
    normalised: Floats = np.clip(rest / (spread + _MIN_SPREAD), -3.0, 3.0)
    return normalised


def _blur(values: Floats, sigma_px: float) -> Floats:
    blurred: Floats = cv2.GaussianBlur(values, (0, 0), sigma_px, borderType=cv2.BORDER_REPLICATE)
    return blurred


@cache
def _frequencies() -> tuple[Integers, Integers]:
    """Row and column of the 64 cosine coefficients of a code: a ring, slow ones carry no texture, fast ones shift."""
    rows, columns = np.indices((SIDE_PX // 4, SIDE_PX // 4)).reshape(2, -1)
    radius = np.hypot(rows, columns)
    radius[radius < 5] = np.inf
    ring = np.argsort(radius, kind="stable")[:64]
    return rows[ring], columns[ring]


@cache
def _basis() -> Floats:
    """Cosines over each window of an axis, float32 [5 * frequencies, SIDE_PX]."""
    at = (np.arange(SIDE_PX) + 0.5) / SIDE_PX
    cosines = np.cos(np.pi * np.arange(_frequencies()[0].max() + 1)[:, None] * at).astype(np.float32)
    edges = np.array(_AXIS_WINDOWS, dtype=np.float32)
    basis: Floats = (cosines @ _sampling(edges[:, 0], edges[:, 1], SIDE_PX)).reshape(-1, SIDE_PX)
    return basis


def _sampling(start: Floats, stop: Floats, side_px: int) -> Floats:
    """Matrices that stretch [start, stop] of an axis over the whole: float32 [B, side_px, side_px], 0 outside of it."""
    share = (np.arange(side_px, dtype=np.float32) + 0.5) / side_px
    at = (start[:, None] + share * (stop - start)[:, None]) * side_px - 0.5
    is_outside = (at < -0.5) | (at > side_px - 0.5)
    at = np.clip(at, 0, side_px - 1)
    at[is_outside] = -2.0
    weights: Floats = np.maximum(0, 1 - np.abs(at[:, :, None] - np.arange(side_px, dtype=np.float32)))
    return weights


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Pairs whose codes are alike, none twice, a row each.

    Attributes:
        whole: The picture seen whole, int64 [n].
        part: The picture seen through a window, int64 [n].
        windows: Windows to try, the likeliest first, int64 [n, tried].
        distance: Bits in which the codes differ for the likeliest, int64 [n].
    """

    whole: Integers
    part: Integers
    windows: Integers
    distance: Integers

    def chosen(self, rows: Integers) -> _Candidates:
        return _Candidates(self.whole[rows], self.part[rows], self.windows[rows], self.distance[rows])


def _candidates(codes: Codes, groups: Integers, sides: Integers | None) -> _Candidates:
    """Find the pairs that are worth comparing.

    Args:
        codes: uint64 [n, windows].
        groups: Group of each picture.
        sides: Side of each picture.
    """
    count = len(codes)
    pairs = np.empty(0, np.int64)
    # Copies in full first: pictures of which there are many are then spared the dearer search through windows.
    for windows in (codes[:, :1], codes[:, 1:]):
        rng = np.random.default_rng(0)  # any samples of the bits do; the same pictures shall give the same pairs
        for _ in range(_TABLES):
            asking = np.flatnonzero(np.bincount(np.concatenate(np.divmod(pairs, count)), minlength=count) < _BUDGET)
            sample = rng.choice(64, _BITS, replace=False).astype(np.uint64)
            mask = np.bitwise_or.reduce(np.uint64(1) << sample)
            offered, keys = _offered(codes[:, 0] & mask, groups, sides, rng)
            queries = windows[asking].ravel()
            new = [pairs]
            for place, query in _meetings(keys, queries & mask):
                whole, part = offered[place], asking[query // windows.shape[1]]
                alike = np.bitwise_count(codes[whole, 0] ^ queries[query]) <= _MAX_DISTANCE
                alike &= groups[whole] != groups[part]
                if sides is not None:
                    alike &= sides[whole] != sides[part]
                new.append(np.minimum(whole, part)[alike] * count + np.maximum(whole, part)[alike])
            pairs = np.sort(np.concatenate(new))  # `np.unique` hashes, ten times slower
            pairs = pairs[_rank(pairs) == 0]
    low, high = np.divmod(pairs, count)
    # Met through any window; compared through the one that fits best, of either picture.
    low_whole = np.bitwise_count(codes[low, :1] ^ codes[high])
    high_whole = np.bitwise_count(codes[high, :1] ^ codes[low])
    is_low = low_whole.min(axis=1) <= high_whole.min(axis=1)
    distance = np.where(is_low[:, None], low_whole, high_whole)
    tried = np.argsort(distance, axis=1, kind="stable")[:, :_TRIED]
    least = distance.min(axis=1).astype(np.int64)
    return _Candidates(np.where(is_low, low, high), np.where(is_low, high, low), tried, least)


def _ranked(candidates: _Candidates, sides: Integers) -> Integers:
    """How close each pair is among those that one of its pictures has with pictures of the other's side: 0 closest."""
    picture = np.concatenate([candidates.whole, candidates.part])
    other_side = sides[np.concatenate([candidates.part, candidates.whole])]
    order = np.lexsort((np.tile(candidates.distance, 2), other_side, picture))
    rank = np.empty_like(order)
    rank[order] = _rank(picture[order], other_side[order])
    least: Integers = rank.reshape(2, -1).min(axis=0)
    return least


def _offered(keys: Codes, groups: Integers, sides: Integers | None, rng: np.random.Generator) -> tuple[Integers, Codes]:
    """Pictures that can be met in a table, ordered by key, so many of each side and group in a bucket at most."""
    shuffled = rng.permutation(len(keys))
    group = rng.permutation(int(groups.max()) + 1)[groups]
    side = np.zeros_like(groups) if sides is None else sides
    order = np.lexsort((shuffled, group, side, keys))
    order = order[_rank(keys[order], side[order], group[order]) < _PER_GROUP]
    order = order[_rank(keys[order], side[order]) < _PER_BUCKET]
    return order, keys[order]


def _rank(*columns: npt.NDArray[Any]) -> Integers:
    """Place of each row in its run of equal rows."""
    is_first = np.ones(len(columns[0]), bool)
    is_first[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    row = np.arange(len(is_first))
    rank: Integers = row - np.maximum.accumulate(np.where(is_first, row, 0))
    return rank


def _meetings(keys: Codes, queries: Codes, at_once: int = 4_000_000) -> Iterator[tuple[Integers, Integers]]:
    """(place in the ordered keys, place in the queries) of all that are equal, in portions."""
    start = np.searchsorted(keys, queries, "left")
    count = np.searchsorted(keys, queries, "right") - start
    asking = np.flatnonzero(count)
    until = np.cumsum(count[asking])
    first = before = 0
    while first < len(asking):
        last = max(first + 1, int(np.searchsorted(until, before + at_once)))
        some = asking[first:last]
        query = np.repeat(some, count[some])
        offset = np.arange(len(query)) - np.repeat(until[first:last] - count[some] - before, count[some])
        yield start[query] + offset, query
        first, before = last, int(until[last - 1])


def _correlations(outer: Floats, inner: Floats, windows: Integers, enough: float) -> Floats:
    """Correlation of windows into `outer` with `inner`, after aligning the pairs that promise anything.

    Args:
        outer: float32 [B, SIDE_PX, SIDE_PX], pictures seen through a window.
        inner: float32 [B, SIDE_PX, SIDE_PX], pictures seen whole.
        windows: int64 [B, tried], windows of each pair, the likeliest first.
        enough: Correlation from which aligning is spared.
    """
    edges = _WINDOWS[windows[:, 0]]
    half_outer, half_inner = _halved(outer), _halved(inner)
    coarse = _correlation(*_seen(half_outer, half_inner, edges))
    for window in windows[:, 1:].T:
        some = np.flatnonzero(coarse < _SURE)
        other = _correlation(*_seen(half_outer[some], half_inner[some], _WINDOWS[window[some]]))
        better = some[other > coarse[some]]
        edges[better], coarse[some] = _WINDOWS[window[better]], np.maximum(coarse[some], other)
    alike = np.zeros_like(coarse)
    sure = np.flatnonzero(coarse >= _SURE)
    for few in _portions(sure):
        alike[few] = _correlation(*_seen(outer[few], inner[few], edges[few]))
    some = np.flatnonzero((coarse >= _PROMISING) & (alike < enough))
    coarse, edges[some] = _aligned(half_outer[some], half_inner[some], edges[some])
    for few in _portions(some[coarse >= _CLOSE]):
        alike[few], _ = _aligned(outer[few], inner[few], edges[few])
    return alike


def _portions(rows: Integers) -> Iterator[Integers]:
    """Portions that leave the arrays of an alignment in the processor's cache."""
    return (rows[start : start + _BATCH // 8] for start in range(0, len(rows), _BATCH // 8))


def _halved(textures: Floats) -> Floats:
    half: Floats = textures.reshape(len(textures), SIDE_PX // 2, 2, SIDE_PX // 2, 2).mean(axis=(2, 4))
    return half


def _seen(outer: Floats, inner: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """`outer` through its windows, and `inner` where the window lies in the picture (0 elsewhere)."""
    x0, x1, y0, y1 = edges.T
    rows, columns = _sampling(y0, y1, outer.shape[1]), _sampling(x0, x1, outer.shape[1])
    is_inside = np.any(rows, axis=2)[:, :, None] & np.any(columns, axis=2)[:, None, :]
    return np.matmul(rows @ outer, columns.transpose(0, 2, 1)), np.multiply(inner, is_inside, dtype=np.float32)


def _correlation(first: Floats, second: Floats) -> Floats:
    """Normalised correlation; the local means are out already."""
    power = np.einsum("bij,bij->b", first, first) * np.einsum("bij,bij->b", second, second)
    return np.asarray(np.einsum("bij,bij->b", first, second) / np.sqrt(power + 1e-6), dtype=np.float32)


def _aligned(outer: Floats, inner: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Best correlation met, and at which edges, while Gauss-Newton steps move the four edges of each window."""
    side_px = outer.shape[1]
    whole = np.array([0, 1, 0, 1], dtype=np.float32)
    share = (np.arange(side_px, dtype=np.float32) + 0.5) / side_px
    seen, target = _seen(outer, inner, edges)
    best, best_edges = _correlation(seen, target), edges
    for _ in range(_STEPS):
        size_px = (edges[:, [1, 3]] - edges[:, [0, 2]])[:, :, None, None] / side_px
        slope_x = np.gradient(seen, axis=2) / size_px[:, 0]
        slope_y = np.gradient(seen, axis=1) / size_px[:, 1]
        slopes = [slope_x * (1 - share), slope_x * share, slope_y * (1 - share)[:, None], slope_y * share[:, None]]
        jacobian = np.stack(slopes, axis=1).reshape(len(seen), 4, side_px * side_px)
        gain = np.einsum("bij,bij->b", seen, target) / (np.einsum("bij,bij->b", seen, seen) + 1e-6)
        residual = target / np.maximum(gain, 0.3)[:, None, None] - seen
        normal = jacobian @ jacobian.transpose(0, 2, 1)
        normal += (1e-3 * np.trace(normal, axis1=1, axis2=2) + 1e-6)[:, None, None] * np.eye(4, dtype=np.float32)
        step = np.linalg.solve(normal, jacobian @ residual.reshape(len(seen), side_px * side_px, 1))[:, :, 0]
        edges = whole + np.clip(edges + np.clip(step, -0.03, 0.03) - whole, -_MAX_CROP, _MAX_CROP)
        seen, target = _seen(outer, inner, edges)
        now = _correlation(seen, target)
        best_edges = np.where((now > best)[:, None], edges, best_edges)
        best = np.maximum(best, now)
    return best, best_edges
