"""One photo through all the steps. The file to read first."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from gpen_core.clock import StageClock
from gpen_core.faces.align import align_face, rescale_source
from gpen_core.faces.condition import is_already_sharp, measure_condition, predict_strength
from gpen_core.faces.detect import EmbeddedDetector, FaceDetector, FacexlibDetector
from gpen_core.faces.mask import EllipseMask, FaceMask, ParsedMask
from gpen_core.faces.parse import FaceParser, FacexlibParser
from gpen_core.faces.paste import Patch, add_grain, make_patch
from gpen_core.faces.search import find_faces
from gpen_core.faces.select import skip_reasons
from gpen_core.gate import apply_gate
from gpen_core.models.checkpoint import load_generator
from gpen_core.models.gpen import Generator
from gpen_core.models.registry import get_spec
from gpen_core.models.verify import WeightsFile
from gpen_core.models.weights import load_model, load_present, load_weights, verified_file
from gpen_core.notes import face_notes
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.photo.background import Upscaler, make_background, resize_alpha
from gpen_core.photo.color import detect_tone
from gpen_core.photo.deep import resize_fine
from gpen_core.photo.io import PhotoSource, read_photo
from gpen_core.prepared import NetworkAnswer, PreparedPhoto
from gpen_core.result import Composition, RestoreResult
from gpen_core.runtime.crops import CropRestorer, RestoredCrops
from gpen_core.runtime.device import resolve_placement
from gpen_core.runtime.engine import Engine
from gpen_core.runtime.judge import EqFaceJudge, FaceJudge
from gpen_core.runtime.networks import GeneratorSource
from gpen_core.runtime.onnx_engine import ONNX_SUFFIX, OnnxEngine
from gpen_core.runtime.upscaler import Upscalers
from gpen_core.types import AlignedCrop, DetectedFace, OnProgress, Pixels, Progress, RestoredFace
from gpen_core.whole import WholePicture, add_whole, plan_whole, restore_whole, whole_notes

ALREADY_SHARP = "it is sharper in the photo than the model can make it"
AS_A_WHOLE = "the picture was restored as a whole"


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
        upscaler: Upscaler | None = None,
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
            upscaler: enlarges the background unless it is off, in the place of one with weights on this machine.
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
        self.model_sha256: str | None = None
        self.crop_restorer = crop_restorer or self._load_engine(runtime, report)
        self.detector = detector or self._load_detector(runtime, report)
        self.judge = judge or (self._load_judge(runtime, report) if runtime.gate else None)
        self._upscaler = upscaler
        self._upscalers = Upscalers(runtime)
        self._parser = parser
        self._parser_notes: tuple[str, ...] = ()
        self._parser_lock = threading.Lock()

    def _load_engine(self, runtime: RuntimeOptions, report: OnProgress) -> CropRestorer:
        weights = Path(runtime.weights) if runtime.weights else None
        if weights is not None and weights.suffix == ONNX_SUFFIX:
            exported = OnnxEngine(weights, runtime)
            self.model_sha256 = exported.model_sha256
            return exported
        file, generator = load_model(runtime.model, weights, _load_strictly, report)
        placement = resolve_placement(runtime, file.spec.name if file.is_verified else None)
        self._notes += (*file.notes, *placement.notes)
        self.model_sha256 = file.sha256
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
        """Load what only these options need, ParseNet for `mask="parsing"` say; `restore` does it too.

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
        self._background_upscaler(options, on_progress or _ignore_progress)

    def _background_upscaler(
        self, options: RestoreOptions, report: OnProgress
    ) -> tuple[Upscaler | None, tuple[str, ...]]:
        if self._upscaler is None:
            return self._upscalers.get(options, report)
        is_off = options.background == "off" or (options.background == "auto" and options.scale == 1)
        return None if is_off else self._upscaler, ()

    @property
    def runtime(self) -> RuntimeOptions:
        """How its networks run, as it was asked for."""
        return self._runtime

    @property
    def loading_notes(self) -> tuple[str, ...]:
        """What is to know of how its weights were found and placed; every result says it."""
        return self._notes

    @property
    def batch_size(self) -> int:
        """Faces that one call of the network takes."""
        return self._runtime.batch_size

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
        prepared = self.begin(source, options, on_progress)
        (answer,) = self.restore_crops([prepared], on_progress)
        return self.finish(prepared, answer)

    def begin(
        self, source: PhotoSource, options: RestoreOptions | None = None, on_progress: OnProgress | None = None
    ) -> PreparedPhoto:
        """The first part of `restore`, up to where GPEN comes in; may raise what it raises.

        `restore_crops` and `finish` are the others. A batch runs the three of different photos at the same time.
        """
        options = options or RestoreOptions()
        report = on_progress or _ignore_progress
        clock = StageClock(report)
        self.prepare(options, report)
        with clock.stage("read"):
            photo = read_photo(source, accept_damaged=options.accept_damaged)
            tone = detect_tone(photo.pixels) if options.keep_tone else None
        with clock.stage("background", is_counted=True):
            upscaler, notes = self._background_upscaler(options, report)
            background = make_background(photo.pixels, upscaler, tone, options, report)
            background = replace(background, notes=(*notes, *background.notes))
        with clock.stage("detect"):
            found = find_faces(self.detector, photo.pixels, options)
            reasons = [AS_A_WHOLE] * len(found.faces)
            if options.mode != "whole":
                reasons = skip_reasons(found.faces, options, photo.width, photo.height)
            crops = {
                index: align_face(photo.pixels, face.landmarks, self._template(options), self.crop_restorer.size)
                for index, (face, reason) in enumerate(zip(found.faces, reasons, strict=True))
                if not reason
            }
        return PreparedPhoto(
            photo=photo,
            tone=tone,
            background=background,
            found=found,
            reasons=tuple(reasons),
            crops=crops,
            options=options,
            clock=clock,
        )

    def restore_crops(
        self, prepared: Sequence[PreparedPhoto], on_progress: OnProgress | None = None
    ) -> tuple[NetworkAnswer, ...]:
        """GPEN's answers for several photos of the same options; the faces of all of them go through it in one call.

        Raises:
            DeviceError: the device's memory is too small.
        """
        report, options = on_progress or _ignore_progress, prepared[0].options
        wholes = [self._restore_whole(photo, report) for photo in prepared]
        crops = [crop.pixels for photo in prepared for crop in photo.crops.values()]
        start = time.perf_counter()
        ran = self.crop_restorer.restore_crops(crops, report, options)
        seconds = time.perf_counter() - start
        answers, begin = [], 0
        for photo, whole in zip(prepared, wholes, strict=True):
            end = begin + len(photo.crops)
            share = (end - begin) / len(crops) if crops else 1 / len(prepared)
            photo.clock.add("restore", (seconds - ran.compile_s) * share)
            photo.clock.add("compile", ran.compile_s * share)
            part = replace(ran, crops=ran.crops[begin:end], precisions=(ran.precisions or ())[begin:end])
            answers.append(NetworkAnswer(part, whole))
            begin = end
        return tuple(answers)

    def _restore_whole(self, prepared: PreparedPhoto, report: OnProgress) -> WholePicture | None:
        options, canvas = prepared.options, prepared.background.canvas
        if options.mode == "faces":
            return None
        with prepared.clock.stage("restore", is_counted=True):
            plan = plan_whole(canvas.shape[1], canvas.shape[0], self.crop_restorer.size, options)
            whole = restore_whole(canvas, plan, self.crop_restorer, prepared.recolor, options, report)
        prepared.clock.move("restore", "compile", whole.ran.compile_s)
        return whole

    def finish(self, prepared: PreparedPhoto, answer: NetworkAnswer) -> RestoreResult:
        """The last part of `restore`: what GPEN answered, put into the photo."""
        photo, options, clock = prepared.photo, prepared.options, prepared.clock
        background, found, whole, ran = prepared.background, prepared.found, answer.whole, answer.ran
        with clock.stage("blend"):
            all_faces = self._judged_faces(prepared, ran)
            composition = self._compose(prepared, all_faces, whole)
            shown = tuple(composition.patches)
            faces = [face if face.restored is None or face.index in shown else _outside(face) for face in all_faces]
            pixels = composition.blend(options.strength, shown)
        if whole is not None:
            ran = add_whole(ran, whole.ran, has_faces=bool(prepared.crops))
        parser_notes = self._parser_notes if options.mask == "parsing" else ()
        notes = [*photo.notes, *self._notes, *parser_notes, *background.notes, *found.notes, *ran.notes]
        if whole is not None:
            notes += whole_notes(found.faces, options.scale, whole.plan)
        return RestoreResult(
            original=photo,
            photo=replace(
                photo,
                pixels=pixels,
                alpha=resize_alpha(photo.alpha, options.scale),
                fine=resize_fine(photo.fine, pixels.shape[1], pixels.shape[0]),
            ),
            faces=tuple(faces),
            shown=shown,
            options=options,
            strength=options.strength,
            template=self._template(options),
            upscaler=background.upscaler,
            background_tiles=background.tiles,
            whole_tiles=None if whole is None else whole.tiles,
            model=self.crop_restorer.model_name,
            detector=self.detector.name,
            device=ran.device or self.crop_restorer.device_name,
            precision=ran.precision,
            compiled=ran.compiled,
            tile_px=ran.tile_px,
            overlap_px=ran.overlap_px,
            search_tile_px=found.tile_px,
            num_search_tiles=found.num_tiles,
            notes=_unique([*notes, *face_notes(faces, background, self.crop_restorer, options)]),
            timings=clock.timings,
            composition=composition,
        )

    def _judged_faces(self, prepared: PreparedPhoto, ran: RestoredCrops) -> tuple[RestoredFace, ...]:
        crops, options = prepared.crops, prepared.options
        restored = dict(zip(crops, ran.crops, strict=True))
        precisions = dict(zip(crops, ran.precisions or [ran.precision] * len(crops), strict=True))
        faces: list[RestoredFace] = []
        for index, (face, reason) in enumerate(zip(prepared.found.faces, prepared.reasons, strict=True)):
            crop = crops.get(index)
            answer = restored.get(index)
            if crop is None:
                faces.append(RestoredFace(index=index, face=face, decision="skipped", reason=reason))
            elif answer is None:
                reason = "the network gave numbers that are not finite"
                faces.append(RestoredFace(index=index, face=face, decision="failed", reason=reason, crop=crop))
            else:
                answer = prepared.recolor(crop.pixels, answer)
                faces.append(self._restored_face(index, face, crop, answer, options))
        faces = [replace(face, precision=precisions.get(face.index)) for face in faces]
        return apply_gate(self.judge, faces, options) if self.judge else tuple(faces)

    def _restored_face(
        self, index: int, face: DetectedFace, crop: AlignedCrop, restored: Pixels, options: RestoreOptions
    ) -> RestoredFace:
        condition = measure_condition(crop.pixels, restored, self._template(options))
        coefficients = self.crop_restorer.strength_coefficients
        is_judged = options.strength == "auto" and coefficients is not None
        reason = ""
        if options.sharp_faces != "restore" and not is_judged and is_already_sharp(condition, crop.affine):
            if options.sharp_faces == "skip":
                reason = f"{ALREADY_SHARP} (sharp faces: skip)"
                return RestoredFace(
                    index=index, face=face, decision="skipped", reason=reason, crop=crop, condition=condition
                )
            reason = f"by half only, since {ALREADY_SHARP} (sharp faces: weaken)"
            restored = np.rint((restored.astype(np.float32) + crop.pixels) / 2).astype(np.uint8)
        return RestoredFace(
            index=index,
            face=face,
            decision="restored",
            reason=reason,
            crop=crop,
            condition=condition,
            best_strength=None if coefficients is None else predict_strength(condition, coefficients),
            restored=restored,
        )

    def _compose(
        self, prepared: PreparedPhoto, faces: Sequence[RestoredFace], whole: WholePicture | None
    ) -> Composition:
        photo, canvas, options = prepared.photo, prepared.background.canvas, prepared.options
        base = canvas if whole is None else whole.pixels
        factors = (canvas.shape[1] / photo.width, canvas.shape[0] / photo.height)
        soft = EllipseMask(self._template(options), self.crop_restorer.size)
        patches: dict[int, Patch] = {}
        for face in faces:
            if face.crop is None or face.restored is None:
                continue
            affine = rescale_source(face.crop.affine, factors)
            mask: FaceMask = soft
            if options.mask == "parsing" and self._parser is not None:
                prepared.clock.report(Progress("blend", face.index, len(faces)))
                mask = ParsedMask(soft, self._parser.parse(face.restored), self.crop_restorer.size)
            # Where the base is the photo, the crop was cut from it.
            crop = face.crop.pixels if base is photo.pixels else None
            patch = make_patch(base, face.restored, affine, mask, crop=crop)
            if patch is not None:
                if options.grain:
                    patch = add_grain(patch, base, face.index, is_toned=prepared.tone is not None)
                patches[face.index] = patch
        best = {face.index: face.best_strength for face in faces if face.index in patches}
        whole_pixels = None if whole is None else whole.pixels
        return Composition(canvas=canvas, whole=whole_pixels, patches=patches, best_strengths=best)

    def _template(self, options: RestoreOptions) -> str:
        return self.crop_restorer.template if options.template == "auto" else options.template


def _load_strictly(file: WeightsFile) -> Generator:
    return load_generator(file.path, expected_size=file.spec.size or None)


def _outside(face: RestoredFace) -> RestoredFace:
    return replace(face, decision="skipped", reason="it lies outside the photo", restored=None)


def _unique(notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(notes))
