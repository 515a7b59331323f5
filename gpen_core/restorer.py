"""One photo through all the steps. The file to read first."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpen_core.faces.align import align_face, rescale_source, similarity_scale
from gpen_core.faces.condition import measure_condition, predict_strength
from gpen_core.faces.detect import EmbeddedDetector, FaceDetector, FacexlibDetector
from gpen_core.faces.mask import EllipseMask, FaceMask, ParsedMask
from gpen_core.faces.parse import FaceParser, FacexlibParser
from gpen_core.faces.paste import Patch, make_patch
from gpen_core.faces.search import FoundFaces, find_faces
from gpen_core.faces.select import skip_reasons
from gpen_core.gate import apply_gate
from gpen_core.models.checkpoint import load_generator
from gpen_core.models.gpen import Generator
from gpen_core.models.registry import get_spec
from gpen_core.models.verify import WeightsFile
from gpen_core.models.weights import load_model, load_present, load_weights, verified_file
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.photo.background import make_canvas, resize_alpha
from gpen_core.photo.color import detect_tone
from gpen_core.photo.io import PhotoSource, read_photo
from gpen_core.result import Composition, RestoreResult
from gpen_core.runtime.device import resolve_placement
from gpen_core.runtime.engine import CropRestorer, Engine, RestoredCrops
from gpen_core.runtime.judge import EqFaceJudge, FaceJudge
from gpen_core.runtime.networks import GeneratorSource
from gpen_core.types import AlignedCrop, DetectedFace, OnProgress, Pixels, Progress, RestoredFace, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE_FACE_FACTOR = 1.25
"""A face this much larger in the photo than in the crop is named: the network sees it reduced."""


def _ignore_progress(progress: Progress) -> None:
    """Progress that nobody asked for."""


class Restorer:
    """Restores photos. Holds the networks; safe to share between threads."""

    def __init__(
        self,
        model: str | None = None,
        runtime: RuntimeOptions | None = None,
        *,
        detector: FaceDetector | None = None,
        crop_restorer: CropRestorer | None = None,
        judge: FaceJudge | None = None,
        parser: FaceParser | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Load the weights, fetching what was asked for by name and is missing, and place them on the device.

        Args:
            model: name of a model, in the place of `runtime.model`.
            runtime: model, weights file, detector, gate, device, precision, compilation, batch size.
            detector: finds faces, in the place of `runtime.detector`.
            crop_restorer: restores crops, in the place of a model.
            judge: the gate, in the place of `runtime.gate`.
            parser: finds the outline of faces for `mask="parsing"`, in the place of ParseNet.
            on_progress: hears how far a download is; raising in it stops the download.

        Raises:
            OptionError: no such model.
            WeightsError: its weights can neither be found nor fetched, are damaged or of another network.
            DeviceError: no such device.
        """
        runtime = runtime or RuntimeOptions()
        if model is not None:
            runtime = replace(runtime, model=model)
        report = on_progress or _ignore_progress
        self._runtime = runtime
        self._notes: tuple[str, ...] = ()
        self.crop_restorer = crop_restorer or self._load_engine(runtime, report)
        self.detector = detector or self._load_detector(runtime, report)
        self.judge = judge or (self._load_judge(runtime, report) if runtime.gate else None)
        self._parser = parser
        self._parser_notes: tuple[str, ...] = ()
        self._parser_lock = threading.Lock()

    def _load_engine(self, runtime: RuntimeOptions, report: OnProgress) -> Engine:
        weights = Path(runtime.weights) if runtime.weights else None
        file, generator = load_model(runtime.model, weights, _load_strictly, report)
        placement = resolve_placement(runtime, file.spec.name if file.is_verified else None)
        self._notes += (*file.notes, *placement.notes)
        return Engine(
            GeneratorSource(generator, file.path, partial(_load_strictly, file)),
            template=file.spec.template,
            model_name=file.spec.name,
            strength_coefficients=file.spec.strength_coefficients if file.is_verified else None,
            placement=placement,
            runtime=runtime,
        )

    def _load_detector(self, runtime: RuntimeOptions, report: OnProgress) -> FaceDetector:
        """The one asked for; `auto` takes RetinaFace-R50 where its file is, else the embedded one."""
        if runtime.detector == EmbeddedDetector.name:
            return EmbeddedDetector()
        spec, device = get_spec(FacexlibDetector.name), str(resolve_placement(runtime).device)

        def load(file: WeightsFile) -> FaceDetector:
            return FacexlibDetector(file.path, device)

        if runtime.detector == FacexlibDetector.name:
            file, detector = load_weights(spec, load, report)
            self._notes += file.notes
            return detector
        passed: list[str] = []
        found = load_present(spec, load, passed)
        self._notes += found[0].notes if found else tuple(passed)
        return found[1] if found else EmbeddedDetector()

    def _load_judge(self, runtime: RuntimeOptions, report: OnProgress) -> FaceJudge:
        backbone, quality = (verified_file(get_spec(name), report) for name in ("eqface-backbone", "eqface-quality"))
        self._notes += (*backbone.notes, *quality.notes)
        return EqFaceJudge(backbone.path, quality.path, resolve_placement(runtime).device)

    def prepare(self, options: RestoreOptions, on_progress: OnProgress | None = None) -> None:
        """Load what only these options need, ParseNet for `mask="parsing"`; `restore` does it too.

        Raises:
            WeightsError: its weights can neither be found nor fetched, are damaged or of another network.
        """
        with self._parser_lock:
            if options.mask == "parsing" and self._parser is None:
                device = str(resolve_placement(self._runtime).device)
                file, self._parser = load_weights(
                    get_spec(FacexlibParser.name),
                    lambda file: FacexlibParser(file.path, device),
                    on_progress or _ignore_progress,
                )
                self._parser_notes = file.notes

    @property
    def model_name(self) -> str:
        return self.crop_restorer.model_name

    def restore(
        self, source: PhotoSource, options: RestoreOptions | None = None, on_progress: OnProgress | None = None
    ) -> RestoreResult:
        """Find the faces in a photo, restore them and put them back.

        Args:
            source: what `gpen_core.photo.io.read_photo` reads.
            options: strength, scale, which faces, and more.
            on_progress: hears how far it is; raising in it stops the restoration.

        Returns:
            The result. That no face was found is a note in it, not an error.

        Raises:
            PhotoError: the photo cannot be read, or the result would be too large.
            OptionError: a face number that does not exist.
            DeviceError: the device's memory is too small.
        """
        options = options or RestoreOptions()
        report = on_progress or _ignore_progress
        clock = _StageClock(report)
        self.prepare(options, report)
        notes = (*self._notes, *(self._parser_notes if options.mask == "parsing" else ()))
        with clock.stage("read"):
            photo = read_photo(source)
            canvas = make_canvas(photo.pixels, options.scale)
        with clock.stage("detect"):
            found = find_faces(self.detector, photo.pixels, options)
            reasons = skip_reasons(found.faces, options, photo.width, photo.height)
        with clock.stage("restore", is_counted=True):
            faces, ran = self._restore_faces(photo.pixels, found, reasons, options, report)
        clock.move("restore", "compile", ran.compile_s)
        with clock.stage("blend"):
            composition = self._compose(canvas, faces, options, report)
            shown = tuple(composition.patches)
            faces = tuple(face if face.restored is None or face.index in shown else _outside(face) for face in faces)
            pixels = composition.blend(options.strength, shown)
        return RestoreResult(
            original=photo,
            photo=replace(photo, pixels=pixels, alpha=resize_alpha(photo.alpha, options.scale)),
            faces=faces,
            shown=shown,
            strength=options.strength,
            scale=options.scale,
            mask=options.mask,
            model=self.crop_restorer.model_name,
            detector=self.detector.name,
            device=ran.device or self.crop_restorer.device_name,
            precision=ran.precision,
            compiled=ran.compiled,
            tile_px=ran.tile_px,
            overlap_px=ran.overlap_px,
            search_tile_px=found.tile_px,
            num_search_tiles=found.num_tiles,
            notes=_unique((*photo.notes, *notes, *found.notes, *ran.notes, *self._face_notes(faces, options))),
            timings=clock.timings,
            composition=composition,
        )

    def _restore_faces(
        self, pixels: Pixels, found: FoundFaces, reasons: Sequence[str], options: RestoreOptions, report: OnProgress
    ) -> tuple[tuple[RestoredFace, ...], RestoredCrops]:
        crops = {
            index: align_face(pixels, face.landmarks, self._template(options), self.crop_restorer.size)
            for index, (face, reason) in enumerate(zip(found.faces, reasons, strict=True))
            if not reason
        }
        ran = self.crop_restorer.restore_crops([crop.pixels for crop in crops.values()], report, options)
        restored = dict(zip(crops, ran.crops, strict=True))
        precisions = dict(zip(crops, ran.precisions or [ran.precision] * len(crops), strict=True))
        tone = detect_tone(pixels) if options.keep_tone and crops else None
        faces: list[RestoredFace] = []
        for index, (face, reason) in enumerate(zip(found.faces, reasons, strict=True)):
            crop = crops.get(index)
            answer = restored.get(index)
            if crop is None:
                faces.append(RestoredFace(index=index, face=face, decision="skipped", reason=reason))
            elif answer is None:
                reason = "the network gave numbers that are not finite"
                faces.append(RestoredFace(index=index, face=face, decision="failed", reason=reason, crop=crop))
            else:
                if tone is not None:
                    answer = tone.recolor(crop.pixels, answer)
                faces.append(self._restored_face(index, face, crop, answer, options))
        faces = [replace(face, precision=precisions.get(face.index)) for face in faces]
        return (apply_gate(self.judge, faces, options) if self.judge else tuple(faces)), ran

    def _restored_face(
        self, index: int, face: DetectedFace, crop: AlignedCrop, restored: Pixels, options: RestoreOptions
    ) -> RestoredFace:
        condition = measure_condition(crop.pixels, restored, self._template(options))
        coefficients = self.crop_restorer.strength_coefficients
        return RestoredFace(
            index=index,
            face=face,
            decision="restored",
            crop=crop,
            condition=condition,
            best_strength=None if coefficients is None else predict_strength(condition, coefficients),
            restored=restored,
        )

    def _compose(
        self, canvas: Pixels, faces: Sequence[RestoredFace], options: RestoreOptions, report: OnProgress
    ) -> Composition:
        soft = EllipseMask(self._template(options), self.crop_restorer.size)
        patches: dict[int, Patch] = {}
        for face in faces:
            if face.crop is None or face.restored is None:
                continue
            affine = rescale_source(face.crop.affine, float(options.scale))
            mask: FaceMask = soft
            if options.mask == "parsing" and self._parser is not None:
                report(Progress("blend", face.index, len(faces)))
                mask = ParsedMask(soft, self._parser.parse(face.restored), self.crop_restorer.size)
            # At scale 1 the canvas is the photo, which the crop was cut from.
            crop = face.crop.pixels if options.scale == 1 else None
            patch = make_patch(canvas, face.restored, affine, mask, crop=crop)
            if patch is not None:
                patches[face.index] = patch
        best = {face.index: face.best_strength for face in faces if face.index in patches}
        return Composition(canvas=canvas, patches=patches, best_strengths=best)

    def _template(self, options: RestoreOptions) -> str:
        return self.crop_restorer.template if options.template == "auto" else options.template

    def _face_notes(self, faces: Sequence[RestoredFace], options: RestoreOptions) -> list[str]:
        if not faces:
            fate = "unchanged" if options.scale == 1 else "only resampled"
            return [f"No face was found, so the photo is {fate}; try a clearer or larger face, or a lower threshold."]
        notes = [f"Face {face.index} was {face.decision}: {face.reason}." for face in faces if face.reason]
        if len(notes) > 5:
            notes = [*notes[:5], f"{len(notes) - 5} more faces were skipped or failed; the report names them all."]
        if options.strength == "auto" and self.crop_restorer.strength_coefficients is None:
            notes.append(f"Automatic strength is not calibrated for {self.model_name}, so full strength was used.")
        size = self.crop_restorer.size
        large = [face.index for face in faces if face.decision == "restored" and _is_large(face.crop)]
        if large:
            which = ", ".join(map(str, large))
            notes.append(
                f"Larger in the photo than {self.model_name} sees a face ({size} px): {which}; "
                "their finest detail was kept as it was."
            )
        return notes


def _load_strictly(file: WeightsFile) -> Generator:
    return load_generator(file.path, expected_size=file.spec.size or None)


def _outside(face: RestoredFace) -> RestoredFace:
    return replace(face, decision="skipped", reason="it lies outside the photo", restored=None)


def _is_large(crop: AlignedCrop | None) -> bool:
    return crop is not None and similarity_scale(crop.affine) * LARGE_FACE_FACTOR < 1.0


def _unique(notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(notes))


class _StageClock:
    """Times the stages of one restoration and reports their beginning and end."""

    def __init__(self, report: OnProgress) -> None:
        self.timings: dict[str, float] = {}
        self._report = report

    @contextmanager
    def stage(self, name: Stage, *, is_counted: bool = False) -> Iterator[None]:
        """Time one stage. A counted one reports its own steps, each face one."""
        if not is_counted:
            self._report(Progress(name, 0, 1))
        start = time.perf_counter()
        yield
        self.timings[name] = time.perf_counter() - start
        if not is_counted:
            self._report(Progress(name, 1, 1))

    def move(self, source: Stage, target: Stage, seconds: float) -> None:
        """Count a part of one stage's time as another's."""
        if seconds:
            self.timings[source] -= seconds
            self.timings[target] = seconds
