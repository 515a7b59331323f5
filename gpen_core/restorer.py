"""One photo through all the steps. The file to read first."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpen_core.clock import StageClock
from gpen_core.faces.align import rescale_source
from gpen_core.faces.condition import is_already_sharp, measure_condition, predict_strength
from gpen_core.faces.detect import FaceDetector
from gpen_core.faces.mask import EllipseMask, FaceMask, HoleMask, ParsedMask
from gpen_core.faces.parse import FaceParser, FacexlibParser
from gpen_core.faces.paste import Patch, add_grain, make_patch
from gpen_core.faces.search import FoundFaces, find_faces
from gpen_core.faces.select import skip_reasons
from gpen_core.gate import apply_gate
from gpen_core.loading import load_detector, load_engine, load_judge
from gpen_core.models.registry import get_spec
from gpen_core.models.weights import load_weights
from gpen_core.notes import result_notes
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.photo.background import RESAMPLED, Upscaler, make_background, resize_alpha
from gpen_core.photo.color import detect_tone
from gpen_core.photo.deep import resize_fine
from gpen_core.photo.inpaint_mask import read_inpaint_mask
from gpen_core.photo.io import PhotoSource, read_photo
from gpen_core.prepared import NetworkAnswer, PreparedPhoto, align_faces
from gpen_core.result import Composition, RestoreResult
from gpen_core.runtime.crops import CropRestorer, RestoredCrops
from gpen_core.runtime.judge import FaceJudge
from gpen_core.tasks import TASKS, check_mask, check_shape, unused_options
from gpen_core.types import AlignedCrop, DetectedFace, OnProgress, Pixels, Progress, RestoredFace
from gpen_core.whole import WholePicture, add_whole, plan_whole, restore_whole

if TYPE_CHECKING:
    from gpen_core.runtime.upscaler import Upscalers

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
        notes: list[str] = []
        self.model_sha256: str | None = None
        self.task = TASKS[runtime.task_name]
        if crop_restorer is None:
            crop_restorer, self.model_sha256, self.task = load_engine(runtime, report, notes)
        self.crop_restorer = crop_restorer
        self.detector = detector or load_detector(runtime, report, notes)
        self.judge = judge or (load_judge(runtime, report, notes) if runtime.gate else None)
        self._notes = tuple(notes)
        self._upscaler = upscaler
        self._upscalers: Upscalers | None = None
        self._upscaler_lock = threading.Lock()
        self._parser = parser
        self._parser_notes: tuple[str, ...] = ()
        self._parser_lock = threading.Lock()

    def prepare(self, options: RestoreOptions, on_progress: OnProgress | None = None) -> None:
        """Load what only these options need, ParseNet for `mask="parsing"` say; `restore` does it too.

        Raises:
            WeightsError: its weights can neither be found nor fetched, are damaged or of another network.
        """
        with self._parser_lock:
            if options.mask == "parsing" and self._parser is None:
                from gpen_core.runtime.device import resolve_placement

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
        if options.background == "off" or (options.background == "auto" and options.scale == 1):
            return None, ()
        if self._upscaler is not None:
            return self._upscaler, ()
        try:
            from gpen_core.runtime.upscaler import Upscalers
        except ImportError as error:
            return None, (f"{RESAMPLED}, because upscalers need torch, which cannot be imported ({error}).",)
        with self._upscaler_lock:
            self._upscalers = self._upscalers or Upscalers(self._runtime)
        return self._upscalers.get(options, report)

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
        self,
        source: PhotoSource,
        options: RestoreOptions | None = None,
        on_progress: OnProgress | None = None,
        *,
        inpaint_mask: PhotoSource | None = None,
    ) -> RestoreResult:
        """Find the faces in a photo, restore them and put them back.

        Args:
            source: what `gpen_core.photo.io.read_photo` reads.
            options: strength, scale, which faces, and more.
            on_progress: hears how far it is; raising in it stops the restoration.
            inpaint_mask: for the task `inpaint`: a picture of the photo's size, white where it is to be painted anew.

        Returns:
            The result. That no face was found is a note in it, not an error.

        Raises:
            PhotoError: the photo cannot be read, or the result would be too large.
            OptionError: a face number that does not exist, or a mask is missing or of no use.
            DeviceError: the device's memory is too small.
        """
        prepared = self.begin(source, options, on_progress, inpaint_mask=inpaint_mask)
        (answer,) = self.restore_crops([prepared], on_progress)
        return self.finish(prepared, answer)

    def begin(
        self,
        source: PhotoSource,
        options: RestoreOptions | None = None,
        on_progress: OnProgress | None = None,
        *,
        inpaint_mask: PhotoSource | None = None,
    ) -> PreparedPhoto:
        """The first part of `restore`, up to where GPEN comes in; may raise what it raises.

        `restore_crops` and `finish` are the others. A batch runs the three of different photos at the same time.
        """
        asked = options or RestoreOptions()
        options = self.task.adapt(asked)
        check_mask(self.task, has_mask=inpaint_mask is not None)
        report = on_progress or _ignore_progress
        clock = StageClock(report)
        self.prepare(options, report)
        with clock.stage("read"):
            photo = read_photo(source, accept_damaged=options.accept_damaged)
            check_shape(self.task, photo)
            mask = None if inpaint_mask is None else read_inpaint_mask(inpaint_mask, photo)
            tone = detect_tone(photo.pixels) if options.keep_tone else None
        with clock.stage("background", is_counted=True):
            upscaler, notes = self._background_upscaler(options, report)
            background = make_background(photo.pixels, upscaler, tone, options, report)
            background = replace(background, notes=(*notes, *background.notes))
        with clock.stage("detect"):
            found = FoundFaces(faces=())
            if not self.task.takes_label_map:
                found = find_faces(self.detector, photo.pixels, options)
            reasons = [AS_A_WHOLE] * len(found.faces)
            if options.mode != "whole":
                reasons = skip_reasons(found.faces, options, photo.width, photo.height)
            size = self.crop_restorer.size
            crops, mask_crops = align_faces(photo, mask, found.faces, reasons, self._template(options), size)
        return PreparedPhoto(
            photo=photo,
            tone=tone,
            background=background,
            found=found,
            reasons=tuple(reasons),
            crops=crops,
            options=options,
            clock=clock,
            task=self.task,
            canvas_mask=None if mask is None else mask.resized(background.canvas.shape[1], background.canvas.shape[0]),
            mask_crops=mask_crops,
            notes=tuple(unused_options(self.task, asked)),
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
        crops = [crop for photo in prepared for crop in photo.shown_crops]
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
            whole = restore_whole(canvas, plan, self.crop_restorer, prepared, options, report)
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
        answer = NetworkAnswer(ran, whole)
        notes = result_notes(prepared, answer, faces, composition, self.crop_restorer, self._loading_notes(options))
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
            task=self.task.name,
            task_done=self.task.done,
            model=self.crop_restorer.model_name,
            detector=self.detector.name,
            device=ran.device or self.crop_restorer.device_name,
            precision=ran.precision,
            compiled=ran.compiled,
            tile_px=ran.tile_px,
            overlap_px=ran.overlap_px,
            search_tile_px=found.tile_px,
            num_search_tiles=found.num_tiles,
            notes=notes,
            timings=clock.timings,
            composition=composition,
        )

    def _loading_notes(self, options: RestoreOptions) -> tuple[str, ...]:
        return (*self._notes, *self._parser_notes) if options.mask == "parsing" else self._notes

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
                answer = prepared.settle(crop.pixels, answer)
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
        canvas_mask = prepared.canvas_mask
        patches: dict[int, Patch] = {}
        for face in faces:
            if face.crop is None or face.restored is None:
                continue
            affine = rescale_source(face.crop.affine, factors)
            mask: FaceMask = soft
            if canvas_mask is not None:
                mask = HoleMask(canvas_mask, self.crop_restorer.size)
            elif options.mask == "parsing" and self._parser is not None:
                prepared.clock.report(Progress("blend", face.index, len(faces)))
                mask = ParsedMask(soft, self._parser.parse(face.restored), self.crop_restorer.size)
            # Where the base is the photo, the crop was cut from it.
            crop = face.crop.pixels if base is photo.pixels else None
            is_replacing = prepared.is_replacing
            patch = make_patch(base, face.restored, affine, mask, crop=crop, is_replacing=is_replacing)
            if patch is not None:
                if options.grain:
                    patch = add_grain(patch, base, face.index, is_toned=prepared.tone is not None)
                patches[face.index] = patch
        best = {face.index: face.best_strength for face in faces if face.index in patches}
        whole_pixels = None if whole is None else whole.pixels
        return Composition(canvas=canvas, whole=whole_pixels, patches=patches, best_strengths=best)

    def _template(self, options: RestoreOptions) -> str:
        return self.crop_restorer.template if options.template == "auto" else options.template


def _outside(face: RestoredFace) -> RestoredFace:
    return replace(face, decision="skipped", reason="it lies outside the photo", restored=None)
