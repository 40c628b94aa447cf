# SPDX-License-Identifier: Apache-2.0
"""Compressors of gradients between groups: values, which ``Between`` takes in its method.

A unit is one tensor of one expert, or one chunk of a dense parameter. It is compressed by itself, as
a matrix [first dimension, all others]. With G groups a payload of P bytes that is gathered is sent
G - 1 times by each rank, one that is added 2 (G - 1) / G times. All arithmetic is in float32, on the
host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _torch

__all__ = [
    "CodecCompressor",
    "Compressor",
    "FullCompressor",
    "LowRankCompressor",
    "QuantizedCompressor",
    "RandomCompressor",
    "StridedCompressor",
    "TernaryCompressor",
    "ThresholdCompressor",
    "TopDctCompressor",
]


class Compressor:
    """Base class of compressors."""

    def made(self) -> Any:
        """The compressor of the C++ library with these options.

        Raises:
            ArgumentError: that names the option with an impossible value.
        """
        raise NotImplementedError

    def payload_bytes(self, rows: int, columns: int) -> int:
        """Bytes for a matrix, of all exchanges; an upper limit if they depend on the elements."""
        return self.made().payload_bytes(rows, columns)


@dataclass(frozen=True, kw_only=True)
class FullCompressor(Compressor):
    """Everything: 4 bytes per element, added. No state. (HSDP)"""

    def made(self) -> Any:
        return _torch.full_compressor()


@dataclass(frozen=True, kw_only=True)
class CodecCompressor(Compressor):
    """Each group sends its unit by a codec; all decode those of all, and average. What a codec leaves
    out is a residual. Gathered.

    Attributes:
        codec: 'bf16', 2 bytes per element; 'int8', 'fp8_e4m3' or 'fp8_e5m2', 260 bytes for each 256.
    """

    codec: str

    def made(self) -> Any:
        return _torch.codec_compressor(self.codec)


@dataclass(frozen=True, kw_only=True)
class TopDctCompressor(Compressor):
    """Of each block the ``kept`` largest coefficients of an orthonormal cosine transform, each with its
    index; at each coefficient the groups that have sent it are averaged. No state. Gathered: for each
    block 5 kept bytes, or 6 kept if it has 257 elements or more. (DeMo, arXiv 2411.19870)

    Attributes:
        rows: of a block of a matrix; 1: runs of ``columns`` elements, as for vectors.
        columns: of a block.
        kept: how many coefficients.
    """

    rows: int = 1
    columns: int = 64
    kept: int = 4

    def made(self) -> Any:
        return _torch.top_dct_compressor(self.rows, self.columns, self.kept)


@dataclass(frozen=True, kw_only=True)
class StridedCompressor(Compressor):
    """Each ``stride``-th element, in each exchange the next ones: 4 / stride bytes per element, added.
    No state. (DeToNATION, arXiv 2502.06728)"""

    stride: int = 16

    def made(self) -> Any:
        return _torch.strided_compressor(self.stride)


@dataclass(frozen=True, kw_only=True)
class RandomCompressor(Compressor):
    """A share of the elements, drawn again in each exchange, alike in all groups: 4 share bytes per
    element, added. No state. (DeToNATION, arXiv 2502.06728)"""

    share: float = 1 / 16

    def made(self) -> Any:
        return _torch.random_compressor(self.share)


@dataclass(frozen=True, kw_only=True)
class TernaryCompressor(Compressor):
    """s sign(g) with the probability |g| / s, else 0, with s = min(max |g|, clip sigma), the largest of
    all groups; on average it is g. No state, no residual. Gathered: 4 bytes, and 1/4 per element.
    (TernGrad, arXiv 1705.07878)

    Attributes:
        clip: in standard deviations; 0: nothing is clipped.
    """

    clip: float = 2.5

    def made(self) -> Any:
        return _torch.ternary_compressor(self.clip)


@dataclass(frozen=True, kw_only=True)
class QuantizedCompressor(Compressor):
    """Buckets between their least and greatest element in 2^bits - 1 steps: floor((x - least) / step
    + u), u in [0, 1); on average it is x. No state, no residual. Gathered: bits / 8 bytes per element,
    and 8 for each bucket. (QSDP, arXiv 2302.02390)

    Attributes:
        bits: 1, 2, 4 or 8.
        bucket: elements, a multiple of 8.
        shifted: in place of u, all steps of a bucket move by a part of one, the same in all groups, and
            elements go to the nearest: errors of half a step at most. QSDP's weights.
    """

    bits: int = 8
    bucket: int = 1024
    shifted: bool = False

    def made(self) -> Any:
        return _torch.quantized_compressor(self.bits, self.bucket, self.shifted)


@dataclass(frozen=True, kw_only=True)
class ThresholdCompressor(Compressor):
    """The elements above a threshold in magnitude: a bit for each element, gathered, then the values at
    all marks of all groups, 4 bytes each, added. What is below is a residual. No state.
    (TAGC, arXiv 2504.05638, with an exact threshold and without its sketch)

    Attributes:
        dropped: at least this share of a unit is below it.
        threshold: in place of that, if above 0.
    """

    dropped: float = 0.95
    threshold: float = 0.0

    def made(self) -> Any:
        return _torch.threshold_compressor(self.dropped, self.threshold)


@dataclass(frozen=True, kw_only=True)
class LowRankCompressor(Compressor):
    """A step of a power iteration for a matrix M [rows, columns], starting from the previous step:

        q = orthonormal(Q);  P = mean of M q;  p = orthonormal(P);  Q = mean of M^T p;  M becomes p Q^T

    Its state is Q, rank columns floats; the residual is M - p Q^T with the group's own Q. Added, in two
    exchanges: 4 rank (rows + columns) bytes. Vectors are sent in full, and so are matrices for which
    that would be half of their bytes or more. (PowerSGD, arXiv 1905.13727)

    Attributes:
        rank: of the matrices that are sent.
        least_saving: the factor by which payloads have to be smaller than the matrix.
    """

    rank: int = 4
    least_saving: int = 2

    def made(self) -> Any:
        return _torch.low_rank_compressor(self.rank, self.least_saving)
