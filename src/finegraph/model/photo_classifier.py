"""A trained classifier of photos: a network with its label graph, the views it was trained on, and how to ask it.

It answers about files, pictures and arrays with everything the posterior knows: the fine labels, every kind, the sure
answer, an explanation, and whether the photo looks like none of the labels. It is saved as a folder of weights and JSON
(`folder/`). All photos take one path (`answering/pipeline.py`): views, features, posterior, description. Asking never
trains: features come from a copy of the backbones in evaluation mode, made again if the weights have changed, and no
gradients are kept. The answer to a photo does not depend on the other photos that are asked about. Cost: the network,
one pass over its weights, and a little for the graph.
"""

from __future__ import annotations

import copy
import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict, Unpack, overload

import torch
from jaxtyping import UInt8
from torch import Tensor

from finegraph.data.samples import Box
from finegraph.data.transforms import ViewSettings
from finegraph.errors import InputError, PhotoFileError
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.answering.given import Given
from finegraph.model.answering.pipeline import PhotoPipeline
from finegraph.model.answering.predictions import Prediction, PredictionSettings, UnknownFlag, describe
from finegraph.model.answering.unknown import UnknownRule
from finegraph.model.features.engines import EngineName
from finegraph.model.features.extract import Cache, FeatureExtractor
from finegraph.model.features.photos import OnBadFile, Photo, Views, is_one_photo, photo_inputs
from finegraph.model.folder.model_reader import read_model
from finegraph.model.folder.model_writer import write_model
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.model.teaching.lesson import MAX_PHOTOS, Lesson, TaughtPhoto, check_id, check_teacher
from finegraph.model.teaching.taught_photos import taught_photos
from finegraph.model.teaching.teaching import Teaching
from finegraph.nn.network import Network

_BATCH = 32
"""How many views are described together, unless the caller says otherwise."""


class Options(TypedDict, total=False):
    """The options of `PhotoClassifier.predict` that do not change what it returns; they are explained there."""

    given: Mapping[str, object] | None
    views: Views
    box: Sequence[float] | Sequence[Box | None] | None
    top: int
    risk: float
    explain: bool
    questions: int
    batch_size: int | None
    engine: EngineName
    progress: Callable[[int, int], None] | None


class PhotoClassifier:
    """A network, its views and its rules, ready to be asked.

    Attributes:
        network: backbones and head.
        views: how photos are cut and scaled for it.
        temperature: what all scores are divided by, so that probabilities are as sure as they ought to be.
        unknown: when a photo is called unknown; None if no rule was chosen. It judges the posterior without
            temperature and evidence, so it holds whatever these are.
        about: facts for the model card, as JSON can hold them: data, sizes, settings, metrics.
        statistics: what the head was fitted from in closed form, so that lessons can be added; None for other heads.

    Example:
        >>> from finegraph.nn.network import build_network
        >>> graph = LabelGraph.from_table({"ramen @ A": {"dish": "ramen"}, "udon @ A": {"dish": "udon"}})
        >>> model = PhotoClassifier(build_network(graph), ViewSettings(size=64, resize=72))
        >>> model.posterior(torch.zeros(1, 3, 64, 64, dtype=torch.uint8)).log_probs("dish").shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        network: Network,
        views: ViewSettings,
        *,
        temperature: float = 1.0,
        unknown: UnknownRule | None = None,
        about: Mapping[str, Any] | None = None,
        statistics: ClassStatistics | None = None,
    ) -> None:
        """Put the parts together; `load` makes them of a folder. See the attributes."""
        if not isinstance(temperature, int | float) or not (0.0 < temperature < math.inf):
            raise InputError(f"temperature: expected a finite number above 0, got {temperature!r}")
        self.network, self.views, self.temperature = network, views, float(temperature)
        self.unknown = unknown
        self.about = dict(about or {})
        self.statistics = statistics
        self._teaching: Teaching | None = None
        self._extractors: dict[tuple[Views, EngineName], FeatureExtractor] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_extractors": {}}  # engines are made again

    @property
    def graph(self) -> LabelGraph:
        """The labels that it tells apart."""
        return self.network.graph

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    def __repr__(self) -> str:
        graph = self.graph
        return f"PhotoClassifier({self.network.design.network}, {len(graph)} fine labels, {len(graph.kinds)} kinds)"

    # ---- files ------------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save it as a model folder, in one step; an earlier model there is replaced, anything else is left alone.

        Lessons are saved along, so that each can still be forgotten. Those to come are kept where it was loaded from.

        Raises:
            ModelFolderError: the folder cannot be written, or holds something else, or a model with lessons that this
                one does not know.
        """
        write_model(
            folder,
            network=self.network,
            views=self.views,
            temperature=self.temperature,
            unknown=self.unknown,
            about=self.about,
            statistics=self.statistics,
            teaching=self._teaching,
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str | torch.device | None = None) -> PhotoClassifier:
        """Load a model folder, or the model of a run folder.

        Args:
            folder: the folder.
            device: where the network goes; by default to a GPU if there is one.

        Raises:
            ModelFolderError: there is no model, it is damaged, or another version of finegraph made it.
        """
        parts = read_model(folder)
        target = torch.device("cuda" if torch.cuda.is_available() else "cpu") if device is None else device
        network = parts.network.to(target, memory_format=torch.channels_last)  # type: ignore[call-overload]
        network.eval().requires_grad_(False)
        model = cls(network, parts.views, temperature=parts.temperature, unknown=parts.unknown, about=parts.about)
        if parts.teaching is not None:
            model.statistics, model._teaching = parts.teaching.statistics, parts.teaching
        return model

    def with_calibration(
        self, temperature: float, unknown: UnknownRule | None, about: Mapping[str, Any]
    ) -> PhotoClassifier:
        """The same classifier with another temperature, another rule for unknown photos, and other facts."""
        model = PhotoClassifier(
            self.network,
            self.views,
            temperature=temperature,
            unknown=unknown,
            about=about,
            statistics=self.statistics,
        )
        model._teaching = self._teaching
        return model

    # ---- lessons ----------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> str:
        """Tells apart what one fitted model was taught: empty without lessons that hold."""
        return "" if self._teaching is None else self._teaching.revision

    def as_fitted(self) -> PhotoClassifier:
        """The classifier before all lessons."""
        model = copy.copy(self)
        if self._teaching is not None:
            model.network = self.network.with_head(self._teaching.fitted_head.to(self.device))
            model._teaching = None
        return model

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """What it was taught, in order, also what was forgotten."""
        return () if self._teaching is None else self._teaching.lessons

    @property
    def teaching(self) -> Teaching:
        """Its lessons and where they are kept.

        Raises:
            InputError: it cannot be taught.
        """
        if self._teaching is not None:
            return self._teaching
        if self.statistics is not None:
            raise InputError("lessons are kept in the folder of a model: save this one, load it, and teach that")
        raise InputError(
            "this model cannot be taught: lessons add to the statistics of a head that was fitted in closed form, and "
            "this one has none; train it again with fit = prototypes"
        )

    def teach(
        self,
        label: str,
        photos: Photo | Iterable[Photo] = (),
        *,
        parents: Mapping[str, object] | None = None,
        person: str = "",
        lesson_id: str | None = None,
    ) -> Lesson:
        """Learn what photos show, at once and for good: the lesson is in the model folder when this returns.

        It is an update of class means, no training, and exact: as many photos taught one by one give the head that
        fitting them with the others at once would, with the same scaling and strengths.

        Args:
            label: the fine label. It may be new; then say which coarse labels it has.
            photos: what shows it. A new label may do without: what its parents tell is known of it then.
            parents: the coarse labels of a new label by kind, written as for `LabelGraph.from_table`; `{}` for none.
            person: the name of the person who teaches.
            lesson_id: tells the lesson from others, so that it can be sent again without being counted twice; by
                default a new one.

        Raises:
            InputError: the model cannot be taught this.
            GraphError: the parents cannot be meant.
            PhotoFileError: a photo cannot be read.
            LessonError: the lesson cannot be kept; nothing has changed.
        """
        teaching = self.teaching
        name = check_id(secrets.token_hex(8) if lesson_id is None else lesson_id)
        check_teacher(person)
        listed = [photos] if is_one_photo(photos) else list(photos)  # type: ignore[arg-type]
        if len(listed) > MAX_PHOTOS:
            raise InputError(f"photos: expected at most {MAX_PHOTOS} in one lesson, got {len(listed)}")
        if all(one.id != name for one in teaching.lessons):
            teaching.check(label, parents, with_photos=bool(listed))  # before the network looks at all photos
        found = taught_photos(self.current_pipeline(), listed, teaching.statistics.views)
        return self.keep_lesson(label, found, parents=parents, person=person, lesson_id=name)

    def keep_lesson(
        self,
        label: str,
        photos: Sequence[TaughtPhoto],
        *,
        parents: Mapping[str, object] | None = None,
        person: str = "",
        lesson_id: str,
    ) -> Lesson:
        """The same as `teach` for photos whose features are known."""
        check_id(lesson_id)
        check_teacher(person)
        lesson = self.teaching.teach(label, photos, parents=parents, person=person, lesson_id=lesson_id)
        self._follow()
        return lesson

    def forget(self, lesson_id: str, *, person: str = "") -> Lesson:
        """Take a lesson back, as if it had never been taught.

        Raises:
            InputError: there is no such lesson.
            LessonError: it cannot be written down; nothing has changed.
        """
        lesson = self.teaching.forget(lesson_id, person=check_teacher(person))
        self._follow()
        return lesson

    def is_current(self) -> bool:
        """Whether nobody taught this model folder anything since it was loaded or refreshed."""
        return self._teaching is None or self._teaching.is_current()

    def refresh(self) -> bool:
        """Take up what others taught this model folder since; whether there was anything. Costs a look at a file.

        Raises:
            LessonError: the lessons are damaged or cannot be read.
        """
        if self._teaching is None:
            return False
        changed = self._teaching.refresh()
        self._follow()
        return changed

    def _follow(self) -> None:
        """Take over the head that follows from the lessons.

        This makes a new network. Answers that have begun are completed with the old one.
        """
        head = self.teaching.head
        if head is not self.network.head:
            self.network = self.network.with_head(head.to(self.device).requires_grad_(False)).eval()

    # ---- the posterior ----------------------------------------------------------------------------------------------

    def pipeline(
        self,
        *,
        views: Views = 1,
        box: bool | None = None,
        engine: EngineName = "auto",
        cache: Cache = False,
        threads: int | None = None,
        batch_size: int = 32,
    ) -> PhotoPipeline:
        """The path from photos to posteriors, with copies of the present backbones.

        Args:
            views: 1 for the centre of each photo, 10 for the centre, the corners and their mirrors.
            box: whether photos of data sets are cut to their boxes; None for what it was trained with.
            engine: what computes features: `onnx`, `torch`, or `auto`. They differ by rounding.
            cache: where features are stored and looked for; None for the folder of the user, False for nowhere.
            threads: how many photos are worked on at the same time.
            batch_size: how many photos are in the network at a time at the most, on a GPU.
        """
        settings = self.views if box is None else replace(self.views, box=box)
        return PhotoPipeline(
            self.network, settings, views=views, engine=engine, cache=cache, threads=threads, batch_size=batch_size
        )

    def current_pipeline(self, views: Views = 1, engine: EngineName = "auto") -> PhotoPipeline:
        """The pipeline that answers questions; its engines are made once, and again if the weights have changed."""
        pipeline, place = self.pipeline(views=views, engine=engine), (views, engine)
        kept = self._extractors.get(place)
        if kept is not None and kept.key == pipeline.extractor.key:
            pipeline.extractor = kept
        self._extractors[place] = pipeline.extractor
        return pipeline

    def posterior(self, pixels: UInt8[Tensor, "batch channel height width"]) -> Posterior:
        """The posterior of each view, with the temperature applied and without gradients.

        Args:
            pixels: views from 0 to 255, cut as `views` says; on any device.
        """
        return self.posterior_of_views(pixels.unsqueeze(1))

    def posterior_of_views(self, pixels: UInt8[Tensor, "batch view channel height width"]) -> Posterior:
        """The posterior of each photo: the average over its views."""
        found = self.current_pipeline().of_views(pixels.flatten(0, 1).unsqueeze(1))
        return self.of_photos(found.posterior, pixels.shape[1])

    def of_photos(self, posterior: Posterior, views: int = 1) -> Posterior:
        """The posterior of each photo, as sure as it ought to be, from that of the single views.

        Args:
            posterior: as the network gives it.
            views: how many rows in turn are views of one photo; they are averaged.
        """
        tempered = posterior if self.temperature == 1.0 else posterior.tempered(self.temperature)
        return tempered if views == 1 else tempered.mean_views(views)

    # ---- answers ----------------------------------------------------------------------------------------------------

    # Text is itself a sequence of text, which is why the forms overlap for the type checker; one photo goes first.
    @overload
    def predict(  # type: ignore[overload-overlap]
        self, photos: Photo, *, on_bad_file: Literal["error"] = "error", **options: Unpack[Options]
    ) -> Prediction: ...

    @overload
    def predict(  # type: ignore[overload-overlap]
        self, photos: Iterable[Photo], *, on_bad_file: Literal["error"] = "error", **options: Unpack[Options]
    ) -> list[Prediction]: ...

    @overload
    def predict(  # type: ignore[overload-overlap]
        self, photos: Photo, *, on_bad_file: OnBadFile, **options: Unpack[Options]
    ) -> Prediction | PhotoFileError: ...

    @overload
    def predict(
        self, photos: Iterable[Photo], *, on_bad_file: OnBadFile, **options: Unpack[Options]
    ) -> list[Prediction | PhotoFileError]: ...

    def predict(
        self,
        photos: Photo | Iterable[Photo],
        *,
        given: Mapping[str, object] | None = None,
        views: Views = 1,
        box: Sequence[float] | Sequence[Box | None] | None = None,
        top: int = 5,
        risk: float = 0.05,
        explain: bool = True,
        questions: int = 3,
        on_bad_file: OnBadFile = "error",
        batch_size: int | None = None,
        engine: EngineName = "auto",
        progress: Callable[[int, int], None] | None = None,
    ) -> Prediction | PhotoFileError | list[Prediction] | list[Prediction | PhotoFileError]:
        """What is on one photo, or on each of many.

        Args:
            photos: a path, a PIL image or an array (height, width, 3) of uint8; or a list of these.
            given: what is known already, by kind (or `"fine"`): a label; a set, one of which it is; likelihoods; or a
                list with one of these per photo, None if nothing is known. Conditioning is exact.
            views: 1 for the centre of the photo, 10 for the average over the centre, the corners and their mirrors.
            box: the part of the photo that is meant, as x, y, width, height in pixels of the upright picture; or a
                list with one or None per photo.
            top: how many labels to list, of the fine labels and of each kind.
            risk: how often the sure answer may be wrong.
            explain: whether to explain the first answer against the second.
            questions: how many questions to offer that would help most to tell the labels apart; 0 for none.
            on_bad_file: "error" raises at the first photo that cannot be read; "skip" puts its `PhotoFileError` in the
                place of its prediction.
            batch_size: how many photos are described together; on a GPU also how many go through the network together.
            engine: what computes features: "onnx", "torch", or "auto" for ONNX Runtime if it is installed and can
                run the network. They differ by rounding.
            progress: called with the number of photos done and the total.

        Returns:
            A prediction for one photo, or a list with one for each, in order.

        Raises:
            PhotoFileError: a photo that cannot be read.
            InputError: an argument is wrong; nothing was opened then.
        """
        if isinstance(views, bool) or views not in (1, 10):
            raise InputError(f"views: expected 1 or 10, got {views!r}")
        if on_bad_file not in ("error", "skip"):
            raise InputError(f"on_bad_file must be 'error' or 'skip', got {on_bad_file!r}")
        size = max(1, _BATCH // views) if batch_size is None else batch_size
        if size < 1:
            raise InputError(f"batch_size: expected at least 1, got {batch_size!r}")
        settings = PredictionSettings(top=top, risk=risk, explain=explain, questions=questions)
        items = photo_inputs([photos] if is_one_photo(photos) else list(photos), box)  # type: ignore[arg-type]
        evidence = Given(self.graph, given, [item.name for item in items])
        found: list[Prediction | PhotoFileError] = []
        for batch in self.current_pipeline(views, engine).posteriors(items, size=size, on_bad_file=on_bad_file):
            names = [items[number].name for number in batch.numbers]
            answers: dict[int, Prediction | PhotoFileError] = {**batch.bad}
            predictions = self.describe(batch.posterior, names, evidence, batch.numbers, settings, views)
            answers.update(zip(batch.numbers, predictions, strict=True))
            found.extend(answers[number] for number in sorted(answers))
            if progress is not None:
                progress(len(found), len(items))
        return found[0] if is_one_photo(photos) else found

    def describe(
        self,
        posterior: Posterior,
        names: Sequence[str],
        given: Given,
        numbers: Sequence[int],
        settings: PredictionSettings,
        views: int = 1,
    ) -> list[Prediction]:
        """The predictions for photos from their posteriors.

        Args:
            posterior: of the single views, as the network gives it.
            names: what the photos are called.
            given: what is known beside photos.
            numbers: which of the photos of `given` these are.
            settings: what a prediction is to hold.
            views: how many rows in turn are views of one photo.

        Raises:
            EvidenceError: the evidence has probability 0.
        """
        if not numbers:
            return []
        with torch.no_grad():
            flags = self._flags(posterior, views)
            alone = self.of_photos(posterior, views)
            surprise = given.surprise(alone, numbers)
            return describe(given.apply(alone, numbers), names, settings, flags, surprise)

    def _flags(self, posterior: Posterior, views: int) -> list[UnknownFlag] | None:
        """Whether each photo is unknown, from the network's posterior of its single views."""
        if self.unknown is None or not self.unknown.holds_for(views):
            return None
        scores = self.unknown.scores(posterior, views=views)
        pairs = zip(scores.tolist(), self.unknown.is_unknown(scores).tolist(), strict=True)
        return [UnknownFlag(score, self.unknown.threshold, unknown) for score, unknown in pairs]


def load(folder: str | os.PathLike[str], device: str | torch.device | None = None) -> PhotoClassifier:
    """Load a trained classifier from a model folder, or from a run folder; see `PhotoClassifier.load`."""
    return PhotoClassifier.load(folder, device)
