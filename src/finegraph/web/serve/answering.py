"""A model as the server uses it: pictures to scores, and scores to answers.

The steps are separate because evidence changes only the second. Scores are the network's own, before temperature and
evidence; a client may keep the scores of its photo and ask again with other evidence, exactly and without the network
(`given`). Where there are fewer features than scores, as with very many labels, the client keeps the features, and the
head multiplies them again: the same scores, to the bit. The server keeps nothing of a photo. Safe to use from several
threads. Cost: the network for scores; a few passes over the graph for an answer, and one over the head for features.
"""

from __future__ import annotations

import base64
import binascii
import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.graph.name_search import label_search
from finegraph.inference import Posterior
from finegraph.model import PhotoClassifier, Prediction
from finegraph.model.answering.given import Given
from finegraph.model.answering.pipeline import posterior_of
from finegraph.model.answering.predictions import PredictionSettings
from finegraph.model.features.engines import EngineName
from finegraph.nn.compact_linear import WeightForm, compact_head
from finegraph.web.decode_lane import Pixels
from finegraph.web.problems import ProblemError

_MANY_LABELS = 10_000
"""The names of more labels are made ready for searches before the first one."""
_BASE_BYTES, _BYTES_PER_LABEL = 64 << 10, 42
"""The size of the largest request with scores, beside these: for each label, as evidence, its name with a number."""


@dataclass(frozen=True, kw_only=True)
class PhotoQuestion:
    """A question about a photo; photos with equal questions are answered together.

    Attributes:
        given: the evidence, in the forms of `Posterior.given` that are the same for all photos.
        settings: how many labels and questions, at which risk, and whether to explain.
        key: identifies the evidence: questions with the same key have the same.
    """

    given: Given = field(compare=False)
    settings: PredictionSettings = field(default_factory=PredictionSettings)
    key: str = ""


class Scores(NamedTuple):
    """The output of the network for one photo: scores before temperature and evidence, and the features."""

    fine: Float[NDArray[np.float32], " fine"]
    coarse: Float[NDArray[np.float32], " coarse"] | None
    feature: Float[NDArray[np.float32], " feature"] | None = None
    numbers: Float[NDArray[np.float32], "number 2"] | None = None
    coarse_feature: Float[NDArray[np.float32], " coarse_feature"] | None = None


class ServedModel:
    """A loaded model as the server uses it.

    Args:
        model: the classifier.
        name: the name of the model.
        engine: what computes the features; ONNX Runtime is about twice as fast as torch on a CPU.

    Attributes:
        id: a fingerprint of weights, labels and rules; scores of one model are refused by another.
    """

    def __init__(self, model: PhotoClassifier, name: str, engine: EngineName = "torch") -> None:
        self.model, self.name = model, name
        self._fitted_id = _fingerprint(model.as_fitted())
        self.id = _taught_id(self._fitted_id, model.revision)
        self._extractor = model.pipeline(engine=engine).extractor

    @property
    def note(self) -> str | None:
        """A note about the engine, if there is one; known after the first picture."""
        return "; ".join(self._extractor.notes) or None

    @classmethod
    def load(cls, folder: Path, engine: EngineName = "auto", weights: WeightForm = "float32") -> ServedModel:
        """Load a model folder or a run folder, and run one picture through it.

        Args:
            folder: the folder.
            engine: what computes the features.
            weights: the number format of the weights of the head.

        Raises:
            ModelFolderError: there is no model, or it is damaged.
            MissingExtraError: the requested engine is not installed.
        """
        served = cls(PhotoClassifier.load(folder), folder.resolve().name, engine)
        if weights != "float32":
            # Scores that a client keeps are those of one model, and rounded weights make another one.
            served.id = hashlib.sha256(f"{served.id} {weights}".encode()).hexdigest()[:16]
            served.model.network.head = compact_head(served.model.network.head, weights)  # type: ignore[assignment]
        served.warm_up(1)  # index tensors are made now, not by the first client
        return served

    def with_lessons(self, model: PhotoClassifier) -> ServedModel:
        """A copy with a model that has been taught since; this one does not change."""
        served = copy.copy(self)
        for name in ("graph_json", "max_given_bytes", "_kept_features", "_score_counts"):
            served.__dict__.pop(name, None)
        served.model, served.id = model, _taught_id(self._fitted_id, model.revision)
        return served

    def warm_up(self, photos: int) -> None:
        """Answer about this many blank pictures at once, which allocates the memory that as many photos will need."""
        size = self.model.views.size
        scores = self.scores([np.zeros((size, size, 3), dtype=np.uint8)] * photos)
        self.answer(scores, ["photo"] * photos, self.ask())
        graph = self.model.graph
        for kind in (None, *graph.kinds):
            if len(graph.fine if kind is None else graph.labels(kind)) > _MANY_LABELS:
                label_search(graph, kind)

    @cached_property
    def graph_json(self) -> bytes:
        """The label graph in its canonical form."""
        return canonical_json(self.model.graph).encode()

    def ask(
        self, given: Mapping[str, object] | None = None, settings: PredictionSettings | None = None, key: str = ""
    ) -> PhotoQuestion:
        """A question, checked against the graph.

        Raises:
            EvidenceError: evidence that cannot be used, or that no fine label agrees with.
            UnknownNameError: a kind or a label that the graph does not have.
        """
        evidence = Given(self.model.graph, given, ["photo"])
        return PhotoQuestion(given=evidence, settings=settings or PredictionSettings(), key=key)

    def scores(self, pictures: Sequence[Pixels]) -> list[Scores]:
        """The scores and features of pictures of the size that the network sees."""
        pixels = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).unsqueeze(1)
        return self._of_features(*self._extractor.of_views(pixels))

    def _of_features(
        self,
        features: Float[Tensor, "batch view feature"],
        coarse_features: Float[Tensor, "batch view coarse_feature"] | None,
    ) -> list[Scores]:
        """The scores of photos with these features, of one view each."""
        posterior = posterior_of(self.model.network, features, coarse_features)
        fine, feature = _rows(posterior.fine_scores), _rows(features[:, 0])
        others = {
            "coarse": posterior.coarse_scores,
            "numbers": posterior.number_scores,
            "coarse_feature": None if coarse_features is None else coarse_features[:, 0],
        }
        rows = {name: _rows(part) for name, part in others.items() if part is not None}
        return [
            Scores(
                fine[row], **{"coarse": None, **{name: part[row] for name, part in rows.items()}}, feature=feature[row]
            )
            for row in range(len(features))
        ]

    def answer(self, scores: Sequence[Scores], names: Sequence[str], ask: PhotoQuestion) -> list[Prediction]:
        """The predictions for photos with these scores and the same question.

        Raises:
            EvidenceError: the evidence has probability 0.
        """
        return self.model.describe(self.posterior(scores), names, ask.given, [0] * len(names), ask.settings)

    def tempered(self, scores: Sequence[Scores]) -> Posterior:
        """The calibrated posterior of photos from their scores."""
        return self.model.of_photos(self.posterior(scores))

    def posterior(self, scores: Sequence[Scores]) -> Posterior:
        """The posterior of photos from their scores, without calibration."""
        device = self.model.device
        fine = torch.from_numpy(np.stack([row.fine for row in scores])).to(device)
        coarse = [row.coarse for row in scores if row.coarse is not None]
        numbers = [row.numbers for row in scores if row.numbers is not None]
        return Posterior(
            self.model.graph,
            fine,
            torch.from_numpy(np.stack(coarse)).to(device) if coarse else None,
            number_scores=torch.from_numpy(np.stack(numbers)).to(device) if numbers else None,
        )

    # ---- scores that a client keeps ---------------------------------------------------------------------------------

    def pack(self, scores: Scores) -> str:
        """Scores as text that a client can keep and send back; the features instead if they are fewer."""
        of_features, of_labels = (scores.feature, scores.coarse_feature), (scores.fine, scores.coarse, scores.numbers)
        kept = of_labels if self._kept_features is None else of_features
        parts = [part.reshape(-1) for part in kept if part is not None]
        return f"{self.id}:{base64.b64encode(np.concatenate(parts).astype('<f4').tobytes()).decode()}"

    def unpack(self, text: str) -> Scores:
        """The scores in a text, or those that follow from the features in it.

        Raises:
            ProblemError: they are of another model.
            InputError: the text is broken.
        """
        made_by, _, packed = text.partition(":")
        if made_by != self.id:
            raise ProblemError("other-model", "Another model is served now than the one that made these scores.")
        try:
            values = np.frombuffer(base64.b64decode(packed, validate=True), dtype="<f4").astype(np.float32)
        except (binascii.Error, ValueError):
            raise InputError("scores: expected what an answer held as `scores`, got a text that is no such") from None
        if len(values) != self._packed_numbers or not np.isfinite(values).all():
            raise InputError(f"scores: expected {self._packed_numbers} finite numbers, got {len(values)} or others")
        if self._kept_features is not None:
            return self._multiplied(values, self._kept_features)
        fine, (coarse, numbers) = len(self.model.graph), self._score_counts
        last = fine + coarse
        return Scores(
            values[:fine],
            values[fine:last] if coarse else None,
            numbers=values[last:].reshape(-1, 2) if numbers else None,
        )

    def _multiplied(self, values: Float[NDArray[np.float32], " _"], count: int) -> Scores:
        """The scores of features that a client sent back, of which the first `count` are for the fine labels.

        Raises:
            InputError: the scores are too large, so the features are of no photo.
        """
        sent = torch.from_numpy(values).reshape(1, 1, -1)
        (scores,) = self._of_features(sent[..., :count], sent[..., count:] if count < len(values) else None)
        if not all(np.isfinite(part).all() for part in scores if part is not None):
            raise InputError("scores: expected features of a photo, got numbers whose scores are not finite")
        return scores

    @cached_property
    def max_given_bytes(self) -> int:
        """The size of the largest valid body with scores and evidence."""
        graph = self.model.graph
        labels = len(graph) + sum(len(graph.kind(name).labels) for name in graph.kinds) + 2 * len(graph.numbers)
        packed = -(-np.dtype(np.float32).itemsize * self._packed_numbers // 3) * 4  # base64 has 4 letters for 3 bytes
        return _BASE_BYTES + packed + _BYTES_PER_LABEL * labels

    @property
    def _packed_numbers(self) -> int:
        """How many numbers a client keeps of a photo."""
        if self._kept_features is None:
            return len(self.model.graph) + sum(self._score_counts)
        coarse = self.model.network.coarse_backbone
        return self._kept_features + (0 if coarse is None else coarse.feature_size)

    @cached_property
    def _kept_features(self) -> int | None:
        """How many features for fine labels a client keeps of a photo; None if there are fewer scores than features."""
        network = self.model.network
        fine, coarse = network.backbone.feature_size, network.coarse_backbone
        features = fine + (0 if coarse is None else coarse.feature_size)
        return fine if features < len(self.model.graph) + sum(self._score_counts) else None

    @cached_property
    def _score_counts(self) -> tuple[int, int]:
        """How many scores the network gives of coarse labels and of numbers; a softmax head gives none."""
        size = self.model.views.size
        blank = torch.zeros(1, 1, 3, size, size, dtype=torch.uint8)
        posterior = posterior_of(self.model.network, *self._extractor.of_views(blank))
        coarse, numbers = (
            0 if part is None else part[0].numel() for part in (posterior.coarse_scores, posterior.number_scores)
        )
        return coarse, numbers


def _rows(values: Tensor) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = values.detach().float().cpu().numpy()
    return rows


def _taught_id(fitted: str, revision: str) -> str:
    """The id of a model with lessons: the same wherever the same lessons are read."""
    return hashlib.sha256(f"{fitted} {revision}".encode()).hexdigest()[:16] if revision else fitted


def _fingerprint(model: PhotoClassifier) -> str:
    """A short digest of everything that answers depend on."""
    digest = hashlib.sha256(model.graph.digest.encode())
    digest.update(repr((model.views, model.temperature, model.unknown)).encode())
    for name, value in sorted(model.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
