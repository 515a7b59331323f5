"""The generator as it is run: the same function as `gpen_core.models.gpen.Generator`, faster and in less memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from gpen_core.models.gpen import Generator, GeneratorConfig
from gpen_core.models.layers import EqualizedLinear, StyledConv, ToRGB
from gpen_core.models.maps import MapMemory
from gpen_core.models.prepared import (
    ROWS_OF_STYLES,
    TOGETHER_UP_TO_PX,
    Memory,
    PreparedLinear,
    PreparedStage,
    PreparedStyledConv,
    PreparedToRGB,
    Scales,
)
from gpen_core.models.streamed import (
    BAND_BYTES,
    GetRows,
    LevelStyles,
    StreamedEntry,
    StreamedLevel,
    StreamedStage,
)
from gpen_core.models.workers import Workers

STREAMED_FROM_PX = 32
"""Levels of this side and above are streamed: below, the transformed weights would outweigh the maps by far."""
WIDE_FROM_CHANNELS = 256
"""At WIDE_AT_PX. Narrower networks compute too little for each step to gain: with 128 channels they took 1.2 to 1.7
times as long streamed, on AVX512 and on AVX2."""
WIDE_AT_PX = 64
HALF_FROM_PX = 64
"""Levels of this side and above run in half precision where that is asked for."""
TILED_FROM_PX = 128
"""Levels of this side and above run in tiles where they are not streamed."""


class FastGenerator(nn.Module):
    """A generator prepared to run, without gradients.

    On a CPU the high levels are streamed in bands (`gpen_core.models.streamed`); elsewhere, and in half precision,
    every level runs in one piece on the device's own convolutions.
    """

    constant: Tensor
    """(1, C, 4, 4): where the decoder starts."""

    def __init__(
        self, generator: Generator, *, half: torch.dtype | None = None, is_streamed: bool | None = None
    ) -> None:
        """Work out all that does not depend on the picture.

        Args:
            generator: holds the weights; it is not changed and not kept.
            half: float16 or bfloat16 for the high levels; modulation and colours stay in float32.
            is_streamed: None streams where it pays: a wide generator on a CPU in full precision.
        """
        super().__init__()
        self.config = generator.config
        device = next(generator.parameters()).device
        if is_streamed is None:
            is_streamed = is_best_streamed(self.config, device, half)
        self._memory: MapMemory | None = None
        self._direct_memory: Memory | None = None
        self.is_streamed = is_streamed and self.config.size >= STREAMED_FROM_PX
        first_streamed = STREAMED_FROM_PX if self.is_streamed else 2 * self.config.size
        self._num_direct = sum(side < first_streamed for side in self.config.sides)
        with torch.no_grad():
            self._prepare(generator, half)
        self.requires_grad_(False).eval()

    def _prepare(self, generator: Generator, half: torch.dtype | None) -> None:
        decoder = generator.generator
        sides = self.config.sides
        dtypes = {side: half if half and side >= HALF_FROM_PX else torch.float32 for side in sides}
        stages = [cast(nn.Sequential, stage) for stage in generator.encoder_stages]
        num_streamed = len(sides) - self._num_direct
        self.entry = StreamedEntry(stages[0]) if num_streamed else None
        self.streamed_stages = nn.ModuleList(StreamedStage(stage) for stage in stages[1:num_streamed])
        # The first direct stage halves the lowest streamed level, so it takes part in neither list above.
        self.stages = nn.ModuleList(
            PreparedStage(stage, dtypes[side])
            for stage, side in list(zip(stages, sides[::-1], strict=True))[num_streamed:]
        )
        self.final_linear = PreparedLinear(cast(EqualizedLinear, generator.final_linear[0]))
        normalize, *mapping = decoder.style
        self.mapping = nn.Sequential(normalize, *(PreparedLinear(cast(EqualizedLinear, layer)) for layer in mapping))
        self.register_buffer("constant", decoder.input.input.detach().clone())
        convs = [cast(StyledConv, layer) for layer in (decoder.conv1, *decoder.convs)]
        images = [cast(ToRGB, layer) for layer in (decoder.to_rgb1, *decoder.to_rgbs)]
        num_direct = 2 * self._num_direct - 1
        layer_dtypes = [dtypes[side] for side in sides for _ in range(2)][1:]
        self.convs = nn.ModuleList(
            PreparedStyledConv(layer, dtype)
            for layer, dtype in zip(convs[:num_direct], layer_dtypes[:num_direct], strict=True)
        )
        if self.is_streamed:
            for layer in (*self.stages, *self.convs):
                cast("PreparedStage | PreparedStyledConv", layer).pack()
        self.to_rgbs = nn.ModuleList(PreparedToRGB(layer) for layer in images[: self._num_direct])
        self.levels = nn.ModuleList(
            StreamedLevel(up, conv, image)
            for up, conv, image in zip(
                convs[num_direct::2], convs[num_direct + 1 :: 2], images[self._num_direct :], strict=True
            )
        )

    @property
    def size(self) -> int:
        """Side of input and output in px."""
        return self.config.size

    @property
    def exact_overlap_px(self) -> int:
        """How far tiles must overlap, in output px, to give the same pixels as the whole."""
        return exact_overlap_px(self.config, is_streamed=self.is_streamed)

    def forward(self, x: Tensor, tile_px: int = 0, overlap_px: int | None = None) -> Tensor:
        """Restore faces.

        Args:
            x: (N, 3, size, size) RGB in [-1, 1].
            tile_px: rows that the high levels work on at a time: a power of two from 16 up, 0 for what is fastest. Less
                memory, the same pixels.
            overlap_px: how many more rows a tile reads on each side; None, and anything from `exact_overlap_px` up,
                gives the same pixels. Less is faster, and neighbouring tiles are faded into each other.

        Returns:
            (N, 3, size, size) float32 RGB, about [-1, 1] but not clamped.
        """
        x = x.float()
        if self.is_streamed:
            with Workers() as workers:
                return self._forward_streamed(x, tile_px or None, workers)
        if 0 < tile_px < self.size and self.exact_overlap_px:
            return self._forward_tiled(x, tile_px, self.exact_overlap_px if overlap_px is None else overlap_px)
        if x.device.type == "cpu" and not torch.compiler.is_compiling():
            return self._forward_by_face(x)
        features = self._encode(x, self.stages)
        return self._decode(self._styles(self._code(features[-1])), features[::-1])[1]

    def _forward_by_face(self, x: Tensor) -> Tensor:
        """The high levels one face after the other: the maps of several leave a processor's cache."""
        num_high = sum(side > TOGETHER_UP_TO_PX for side in self.config.sides)
        high = [self._encode(face, self.stages[:num_high]) for face in x[:, None]]
        lowest_high = torch.cat([of_face[-1] for of_face in high]) if num_high else x
        low = self._encode(lowest_high, self.stages[num_high:])
        styles = self._styles(self._code_together(low[-1]))
        maps, rgb = self._decode([level.of_faces(0, len(x)) for level in styles], low[::-1])
        largest = high[0][0] if num_high else low[0]
        # Taken away while it is used, so that a call at the same time gets its own.
        memory, self._direct_memory = self._direct_memory or Memory(2 * largest.nbytes), None
        images = []
        for face in range(x.shape[0]):
            own, one = [level.of_faces(face, face + 1) for level in styles], slice(face, face + 1)
            # Taken off the list, so that the features are freed when their face is done.
            features = high.pop(0)[::-1]
            images.append(self._ascend(own, features, len(low), maps[one], rgb[one], memory)[1])
        self._direct_memory = memory
        return torch.cat(images)

    def _forward_tiled(self, x: Tensor, tile_px: int, overlap_px: int) -> Tensor:
        """The high levels in bands of rows, the encoder's maps of a band made again where the decoder needs them."""
        scale = self.size // TILED_FROM_PX
        num_high = scale.bit_length()
        high = self.stages[:num_high]
        pieces = []
        # Always exact here: what goes into the style code shows everywhere in the face.
        for band in plan_bands(self.size, tile_px, self.exact_overlap_px, multiple_of=2 * scale):
            lowest_high = self._encode(x[:, :, band.start : band.end], high)[-1]
            pieces.append(lowest_high[:, :, (band.core_start - band.start) // scale :][:, :, : band.core_px // scale])
        features = self._encode(torch.cat(pieces, dim=2), self.stages[num_high:])
        styles = self._styles(self._code(features[-1]))
        maps, rgb = self._decode(styles, features[::-1])
        out = rgb.new_zeros(x.shape[0], 3, self.size, self.size)
        for band in plan_bands(self.size, tile_px, overlap_px, multiple_of=2 * scale):
            rows = slice(band.start // (2 * scale), band.end // (2 * scale))
            of_band = self._encode(x[:, :, band.start : band.end], high)[::-1]
            _, image = self._ascend(styles, of_band, self._num_direct - num_high, maps[:, :, rows], rgb[:, :, rows])
            out[:, :, band.start : band.end] += image * band.weights(overlap_px >= self.exact_overlap_px).to(image)
        return out

    def _forward_streamed(self, x: Tensor, band_rows: int | None, workers: Workers) -> Tensor:
        # Taken away while it is used, so that a call at the same time gets its own.
        memory, self._memory = self._memory or self._new_memory(), None
        image = torch.stack([self._restore_streamed(face, band_rows, workers, memory) for face in x])
        self._memory = memory
        return image

    def _new_memory(self) -> MapMemory:
        """For the encoder's maps below the first level and the decoder's below the last."""
        first = self.config.size // 2
        sides = [side for side in self.config.sides if STREAMED_FROM_PX <= side <= first]
        features = [(side, self.config.num_channels(side)) for side in reversed(sides)]
        return MapMemory(features, [(side, 2 * self.config.num_channels(side)) for side in sides])

    def _restore_streamed(self, picture: Tensor, band_rows: int | None, workers: Workers, memory: MapMemory) -> Tensor:
        """(3, S, S) -> (3, S, S)."""
        assert self.entry is not None
        sources, side = [self.entry.rows_of(picture)], self.size
        for stage, features_out in zip(self.streamed_stages, memory.features, strict=True):
            stage(sources[-1], band_rows, workers, features_out)
            sources.append(rows_of(features_out))
            side //= 2
        features = self._encode(sources[-1](0, side).permute(2, 0, 1)[None], self.stages)
        w = self._code(features[-1])
        low, rgb = self._decode(self._styles(w), features[::-1])
        levels = [cast(StreamedLevel, level) for level in self.levels]
        first_style, _ = levels[0].up_modulation(w)
        maps, image = low[0].permute(1, 2, 0) * first_style[0], rgb[0]
        places = [*zip(memory.levels, memory.spare, strict=True), (None, image.new_empty(0))]
        for level, (out, spare), styles in zip(levels, places, level_styles(levels, w), strict=True):
            image = level.to_rgb.enlarged(image[None])[0]
            level(maps, sources.pop(), styles, image, band_rows, workers, out, spare)
            maps = maps if out is None else out
        return image

    @staticmethod
    def _encode(x: Tensor, stages: Iterable[nn.Module]) -> list[Tensor]:
        """Each direct stage's features, fine to coarse."""
        features = []
        for stage in stages:
            x = stage(x)
            features.append(x)
        return features

    def _code(self, coarsest: Tensor) -> Tensor:
        """Style codes (N, D) from the coarsest features."""
        return cast(Tensor, self.mapping(self.final_linear(coarsest.float().flatten(1))))

    def _code_together(self, features: Tensor) -> Tensor:
        """Style codes from the faces' coarsest features; what follows the faces' own fills up ROWS_OF_STYLES."""
        num_spare = -len(features) % ROWS_OF_STYLES
        return self._code(torch.cat((features, features.new_zeros(num_spare, *features.shape[1:]))))

    def _styles(self, w: Tensor) -> list[DirectStyles]:
        """Of each direct level, coarse to fine, from (N, D) style codes."""
        convs = [cast(PreparedStyledConv, conv) for conv in self.convs]
        scales = [conv.modulation(w) for conv in convs]
        images = [cast(PreparedToRGB, image).matrix(w) for image in self.to_rgbs]
        return [
            DirectStyles(scales[max(2 * level - 1, 0)], scales[2 * level], image) for level, image in enumerate(images)
        ]

    def _decode(
        self, styles: Sequence[DirectStyles], features: Sequence[Tensor], memory: Memory | None = None
    ) -> tuple[Tensor, Tensor]:
        """As many levels as there are features, coarse to fine: the last one's maps (N, C, H, W) and image."""
        lowest = styles[0]
        maps = self.convs[0](self.constant.expand(features[0].shape[0], -1, -1, -1), lowest.conv, features[0])
        return self._ascend(styles, features[1:], 1, maps, self.to_rgbs[0](maps, lowest.matrix), memory)

    def _ascend(
        self,
        styles: Sequence[DirectStyles],
        features: Sequence[Tensor],
        first_level: int,
        maps: Tensor,
        rgb: Tensor,
        memory: Memory | None = None,
    ) -> tuple[Tensor, Tensor]:
        for level, of_level in enumerate(features, start=first_level):
            maps = self.convs[2 * level - 1](maps, styles[level].up, of_level, memory)
            maps = self.convs[2 * level](maps, styles[level].conv, of_level, memory)
            rgb = self.to_rgbs[level](maps, styles[level].matrix, rgb)
        return maps, rgb


@dataclass(frozen=True, slots=True)
class DirectStyles:
    """What the style codes make of a level's layers, for N faces."""

    up: Scales
    """Of the doubling convolution; at the lowest level, which has none, of its only one."""
    conv: Scales
    matrix: Tensor
    """(N, 3, I): from maps to colours."""

    def of_faces(self, start: int, end: int) -> DirectStyles:
        part = slice(start, end)
        return DirectStyles(
            (self.up[0][part], self.up[1][part]), (self.conv[0][part], self.conv[1][part]), self.matrix[part]
        )


@dataclass(frozen=True, slots=True)
class Band:
    """Rows of the picture that are worked on together: `start` to `end`, of which the core is its own."""

    start: int
    core_start: int
    core_end: int
    end: int

    @property
    def core_px(self) -> int:
        return self.core_end - self.core_start

    def weights(self, is_exact: bool) -> Tensor:
        """(end - start, 1): how much each row counts; those of all bands sum to 1.

        Where the overlap is exact the core counts alone. Else neighbours are faded into each other across both.
        """
        rows = torch.arange(self.start, self.end) + 0.5
        if is_exact:
            return ((rows > self.core_start) & (rows < self.core_end)).float()[:, None]
        rise = _ramp(rows - self.core_start, self.core_start - self.start)
        fall = _ramp(self.core_end - rows, self.end - self.core_end)
        return (rise * fall)[:, None]


def _ramp(distance: Tensor, overlap_px: int) -> Tensor:
    """From 0 at -overlap_px to 1 at overlap_px; a step where nothing overlaps."""
    if overlap_px == 0:
        return (distance > 0).float()
    return (0.5 + 0.5 * distance / overlap_px).clamp(0.0, 1.0)


def plan_bands(size: int, tile_px: int, overlap_px: int, *, multiple_of: int) -> list[Band]:
    """Bands of `tile_px` rows with `overlap_px` more on each side inside the picture, both rounded up to multiples."""
    tile_px, overlap_px = (-(-value // multiple_of) * multiple_of for value in (tile_px, overlap_px))
    return [
        Band(max(start - overlap_px, 0), start, end, min(end + overlap_px, size))
        for start, end in ((start, min(start + tile_px, size)) for start in range(0, size, tile_px))
    ]


def rows_of(maps: Tensor) -> GetRows:
    """For maps that exist whole."""
    return lambda lo, hi: maps[lo:hi]


def level_styles(levels: list[StreamedLevel], w: Tensor) -> list[LevelStyles]:
    """A face's styles of each level, from its (1, D) style code."""
    up = [level.up_modulation(w) for level in levels]
    main = [level.modulation(w) for level in levels]
    images = [level.to_rgb.matrix(w) for level in levels]
    return [
        LevelStyles(
            up_gain=up[i][1][0],
            style=main[i][0][0],
            gain=main[i][1][0] * level.output_scales,
            rgb=images[i][0],
            next_style=up[i + 1][0][0] if i + 1 < len(levels) else None,
        )
        for i, level in enumerate(levels)
    ]


def is_best_streamed(config: GeneratorConfig, device: torch.device, half: torch.dtype | None) -> bool:
    """Whether a generator runs best in streamed levels: a wide one on a CPU in full precision."""
    is_wide = config.num_channels(WIDE_AT_PX) >= WIDE_FROM_CHANNELS
    return device.type == "cpu" and half is None and is_wide


def exact_overlap_px(config: GeneratorConfig, *, is_streamed: bool) -> int:
    """How far tiles must overlap, in output px, to give the same pixels as the whole; 0 where they always do."""
    if is_streamed or config.size < TILED_FROM_PX:
        return 0
    # With 8 rows at the lowest tiled level, the encoder's features keep 4 right ones there and more above, and the
    # decoder starts from 4 at the level below, of which each level uses 3.
    return 8 * config.size // TILED_FROM_PX


def peak_activation_mib(
    config: GeneratorConfig, batch_size: int, tile_px: int, *, is_streamed: bool, bytes_per_number: int = 4
) -> float:
    """About what a call takes at its peak beside the weights, counted from the maps that exist at the same time."""
    maps = {side: config.num_channels(side) * side**2 for side in config.sides}
    top = config.size
    if is_streamed:
        # Of one face at a time: the level below the top with its input and its features, and every face's pictures.
        numbers = 3 * maps[top // 2] + 2 * maps.get(top // 4, 0) + 6 * batch_size * top**2
        return numbers * bytes_per_number / 2**20 + 5 * torch.get_num_threads() * BAND_BYTES / 2**20
    needed: float = sum(maps.values()) + 5 * maps[top] + 2 * maps[top // 2]
    overlap_px = exact_overlap_px(config, is_streamed=False)
    if 0 < tile_px < top and overlap_px:
        # A band with what it shares, and the lowest tiled level in one piece with all that is made from it.
        needed = needed * min(1.0, (tile_px + 2 * overlap_px) / top) + 8 * maps[TILED_FROM_PX]
    return batch_size * needed * bytes_per_number / 2**20
