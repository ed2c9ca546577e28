"""The JSON of requests and answers, for validation and for the OpenAPI description.

Answers have the names of `finegraph predict --json`. They are described here and built from the library's own values;
only requests are validated.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

MAX_TOP = 100
"""How many labels an answer lists at most."""
MAX_QUESTIONS = 10
"""How many questions an answer offers at most."""
Risk = Annotated[float, Field(ge=0.0, lt=1.0, description="How often the sure answer may be wrong.")]
Top = Annotated[int, Field(ge=1, le=MAX_TOP, description="How many labels to list.")]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]


class AnswerBody(BaseModel):
    """A label with its probability."""

    label: str
    probability: Probability


class StatementBody(BaseModel):
    """The most specific statement that is sure enough."""

    kind: str | None = Field(description="The kind or number that is stated; null for a fine label.")
    label: str = Field(description="What is stated; of a range `medium to hot`, or `10 to 15 EUR`.")
    probability: Probability
    compatible: int = Field(description="How many fine labels it leaves open.")
    low: float | str | None = Field(description="The lower end of a range: a label or a value; null if it is none.")
    high: float | str | None = Field(description="The upper end of a range.")


class PartBody(BaseModel):
    """What one kind or number, the fine label itself or evidence adds to the log odds."""

    source: str
    first: str | None
    second: str | None
    value: float
    several: bool


class ExplanationBody(BaseModel):
    """Why the first fine label rather than the second: the log odds are the sum of the parts."""

    first: str
    second: str
    log_odds: float
    parts: list[PartBody]


class UnknownBody(BaseModel):
    """Whether the photo looks like none of the known labels."""

    score: float
    threshold: float
    is_unknown: bool


class StoredPhotoBody(BaseModel):
    """A photo of the index."""

    label: str | None
    guess: str | None = Field(description="What the model takes it for, if it has no label.")
    kinds: dict[str, list[str]]
    values: dict[str, float] = Field(default_factory=dict, description="Its numbers, such as a price, if known.")
    ordered: dict[str, list[str]] = Field(
        default_factory=dict, description="Its labels of ordered kinds, or those of what the model takes it for."
    )
    name: str = Field(description="The name of the file.")
    thumbnail: str = Field(description="Where a small picture of it is, for as long as the server runs.")


class QuestionBody(BaseModel):
    """What knowing the label of a kind, or whether a number is above a value, is expected to do."""

    kind: str = Field(description="The kind or number that is asked about.")
    binary: bool = Field(description="Whether the answer is yes or no.")
    gain: float = Field(description="By how many bits the entropy of the fine label falls, on average.")
    before: Probability = Field(description="The probability of the best fine label now.")
    after: Probability = Field(description="What it will be, on average over the answers.")
    settles: Probability = Field(description="How probable it is that the best fine label is then sure at the risk.")
    above: float | None = Field(description="Of a number: the value that it is asked to be above; null of a kind.")
    unit: str = Field(description="Of a number: what it is counted in.")
    text: str = Field(description="The question as one asks it.")


class NumberBody(BaseModel):
    """The prediction of a number, such as a price."""

    mean: float = Field(description="The expected value.")
    spread: float = Field(description="Its standard deviation.")
    low: float = Field(description="The lower end of the shortest interval that holds the value with `probability`.")
    high: float = Field(description="Its upper end.")
    probability: Probability
    unit: str
    quantiles: list[float] = Field(description="The quantiles of 5, 50 and 95 %.")
    text: str = Field(description="The same in words.")


class PredictionBody(BaseModel):
    """The prediction of one photo."""

    number: int = Field(description="Which photo of the request it is, counted from 0.")
    photo: str = Field(description="The name of the file.")
    words: str = Field(description="The answer as a sentence.")
    top: list[AnswerBody]
    kinds: dict[str, list[AnswerBody]]
    risk: float
    sure: StatementBody | None
    explanation: ExplanationBody | None
    unknown: UnknownBody | None
    evidence_probability: Probability | None = Field(
        description="The probability that the photo alone gave to what is given; null if nothing is."
    )
    contradicts_photo: bool = Field(
        description="Whether the photo speaks against what is given, so that `sure` holds only if that is true."
    )
    questions: list[QuestionBody] = Field(description="What to ask next, the most telling first; none if it is sure.")
    numbers: dict[str, NumberBody] = Field(description="Every number of the graph, such as a price.")
    in_index: list[StoredPhotoBody] | None = Field(
        default=None, description="The photos of the index that are this very photo; null without an index."
    )
    scores: str | None = Field(
        default=None,
        description="The photo's scores, for /v1/given, if they were asked for; its features where they are fewer.",
    )


class BadPhotoBody(BaseModel):
    """A photo of a request that could not be read; the others are not affected."""

    number: int
    photo: str
    reason: str


class PredictBody(BaseModel):
    """The predictions of the photos of a request."""

    model: str = Field(description="The id of the model that answered.")
    given: dict[str, list[str]]
    photos: list[PredictionBody]
    bad: list[BadPhotoBody]


Evidence = str | bool | float | list[str] | dict[str, float] | None


class GivenRequest(BaseModel):
    """A photo that was answered already, with other evidence."""

    model_config = ConfigDict(extra="forbid")

    scores: str = Field(description="`scores` of an earlier answer.")
    given: dict[str, Evidence] = Field(
        default_factory=dict,
        description="By kind, or `fine`: a label, a list of which it is one, likelihoods by label, or null. By number "
        "a limit or a range as text, such as `<= 15` or `10..15`, or a value.",
    )
    top: Top = 5
    risk: Risk = 0.05
    explain: bool = Field(default=True, description="Whether to explain the first answer.")
    questions: Annotated[int, Field(ge=0, le=MAX_QUESTIONS, description="How many questions to offer.")] = 3
    photo: str = Field(default="photo", max_length=200, description="What the answer calls the photo.")


class GivenBody(BaseModel):
    """The prediction of a photo given the evidence."""

    model: str
    prediction: PredictionBody


class KindBody(BaseModel):
    """A kind of coarse label."""

    name: str
    labels: int = Field(description="How many labels it has.")
    binary: bool = Field(description="Whether its labels are no and yes.")
    group: str | None = Field(description="The group that it is a part of, such as the ingredients.")
    part: str = Field(description="What it is called within its group.")
    ordered: bool = Field(description="Whether its labels are in rising order.")
    order: list[str] | None = Field(
        description="They in that order, such as mild to hot; null without one, and with more than 200 labels: "
        "`/v1/labels` finds those, and `/v1/graph` has all."
    )


class NumberKindBody(BaseModel):
    """A number of the graph, such as a price."""

    name: str
    unit: str
    scale: str = Field(description="`linear`, or `log` where ratios count.")
    low: float = Field(description="The smallest value of a fine label.")
    high: float = Field(description="The largest.")
    whole: bool = Field(description="Whether all values are whole numbers, such as years.")


class ModelBody(BaseModel):
    """The model that is served."""

    id: str
    name: str
    network: str
    fine: int = Field(description="How many fine labels it tells apart.")
    kinds: list[KindBody]
    numbers: list[NumberKindBody]
    size: int = Field(description="Width and height in pixels of what the network sees.")
    index: int = Field(description="How many photos can be searched; 0 without an index.")
    teaching: bool = Field(description="Whether this server takes lessons.")
    lessons: int = Field(description="How many lessons hold.")
    limits: dict[str, int]


class LessonBody(BaseModel):
    """A lesson."""

    id: str
    at: str = Field(description="When, in UTC.")
    person: str
    label: str
    parents: dict[str, str | dict[str, float]] | None = Field(
        description="The coarse labels of a label that the model was fitted without; else null."
    )
    photos: list[str] = Field(description="The names of its photos.")
    forgotten: bool


class LabelChangeBody(BaseModel):
    """How probable a fine label was and is for a photo."""

    label: str
    before: Probability = Field(description="How probable it was; 0 if it was not known.")
    after: Probability
    shares: dict[str, str] = Field(description="By kind, a coarse label that it has in common with the taught one.")


class ChangeBody(BaseModel):
    """How the answer to a photo of a lesson changed."""

    photo: str
    before: list[AnswerBody]
    after: list[AnswerBody]
    label_before: Probability = Field(description="How probable the label of the lesson was; 0 if it was not known.")
    label_after: Probability
    relatives: list[LabelChangeBody] = Field(
        description="Other labels of the photo, and siblings of the label in the graph, the most changed first."
    )


class TaughtBody(BaseModel):
    """What a lesson, or taking one back, did."""

    model: str = Field(description="The id of the model as it is now.")
    lesson: LessonBody
    new_labels: dict[str, list[str]] = Field(description="By kind, or `fine`: the labels that came with it.")
    changes: list[ChangeBody]
    repeated: bool = Field(description="Whether it had been taught, or taken back, before: nothing changed now.")


class LessonsBody(BaseModel):
    """The lessons that hold."""

    model: str
    count: int
    lessons: list[LessonBody]


class LabelsBody(BaseModel):
    """Labels of a kind."""

    kind: str
    count: int = Field(description="How many labels match.")
    labels: list[str] = Field(description="The first of them; those that begin with the text come first.")


class SampleBody(BaseModel):
    """A photo to try, or to label."""

    name: str
    url: str
    thumbnail: str
    to_label: bool = Field(description="Whether it is to be labelled, in the order of the list.")


class HitBody(StoredPhotoBody):
    """A photo that was found."""

    score: float
    similarity: float
    probability: float | None


class PhotoHitsBody(BaseModel):
    """What was found for one photo, the best first."""

    number: int
    photo: str
    hits: list[HitBody]
    in_index: list[StoredPhotoBody] = Field(description="The photos of the index that are this very photo.")
    limits: dict[str, str] = Field(description="By name, what `this` was in a filter: `> 12.3`.")


class SearchBody(BaseModel):
    """What was found for the photos of a request."""

    model: str
    given: dict[str, list[str]] = Field(description="What was given; without same and other, all hits agree with it.")
    photos: list[PhotoHitsBody]
    bad: list[BadPhotoBody]


class LabelSearchBody(BaseModel):
    """What was found for a fine label, the best first."""

    model: str
    label: str
    hits: list[HitBody]
    limits: dict[str, str] = Field(description="By name, what `this` was in a filter: `> 12.3`.")


class HealthBody(BaseModel):
    """The health of the server."""

    status: str


def multipart(fields: dict[str, dict[str, Any]], max_photos: int) -> dict[str, Any]:
    """The description of a multipart body: files called `photo`, and fields."""
    photo = {
        "type": "array",
        "items": {"type": "string", "format": "binary"},
        "minItems": 1,
        "maxItems": max_photos,
        "description": "Photos: JPEG, PNG, WebP, GIF, BMP, TIFF, PPM or AVIF, and HEIC if the server can read it.",
    }
    schema = {
        "type": "object",
        "required": ["photo"],
        "properties": {"photo": photo, **fields},
        "additionalProperties": False,
    }
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}
