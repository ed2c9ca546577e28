"""Searching an index: by photos, or by a fine label.

`search_photos` takes an open index and an open model, as a server has them. `search_index` takes names, as a user types
them, and finds the model where it was when the index was made. Nothing is printed here.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from finegraph.data.photo_decoding import read_photo
from finegraph.errors import InputError, near_matches, unknown_name
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.inference.evidence import FINE
from finegraph.model.features.keys import PhotoKeys
from finegraph.model.features.photos import Photo
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.search import Hit, Index, StoredPhoto, condition_factors, embed_photos
from finegraph.search.conditions import check_kinds, label_factors
from finegraph.search.filters import Where, agreeing
from finegraph.workflows.index import model_of_index
from finegraph.workflows.predict import (
    evidence_of,
    joined_limits,
    labels_of_range,
    name_and_condition,
    parse_given,
    photos_of,
    without_order,
)


@dataclass(frozen=True, kw_only=True)
class PhotoHits:
    """The photos found for one query.

    Attributes:
        photo: the name of the photo that was searched by; None for a fine label.
        label: the fine label that was searched by; None for a photo.
        hits: the photos that were found, best first.
        in_index: the photos of the index with the content of the photo that was searched by.
        limits: by name, what a limit such as `price<this` was for this query: `< 12.3`, or `> medium`.
    """

    photo: str | None = None
    label: str | None = None
    hits: tuple[Hit, ...]
    in_index: tuple[StoredPhoto, ...] = ()
    limits: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "photo": self.photo,
            "label": self.label,
            "hits": [hit.to_dict() for hit in self.hits],
            "in_index": [photo.to_dict() for photo in self.in_index],
            **({"limits": dict(self.limits)} if self.limits else {}),
        }


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The photos found in an index.

    Attributes:
        index: the folder, as it was given.
        photos: how many photos are in it.
        complete: whether all photos that it was made of are in; False if its making was interrupted.
        method: how it was searched, "exact" or "approximate".
        same: the kinds in which labels were to be the same.
        other: the kinds in which they were to differ.
        where: what the labels of the photos were to be.
        where_not: what they were not to be.
        given: what was known of the photos; without `same` and `other`, all that was found agrees with it.
        queries: what was found for each photo and label.
        units: the unit of each number that has one.
        ordered: the ordered kinds.
    """

    index: str
    photos: int
    complete: bool
    method: str
    same: tuple[str, ...]
    other: tuple[str, ...]
    where: dict[str, tuple[str, ...]]
    where_not: dict[str, tuple[str, ...]]
    given: dict[str, tuple[str, ...]]
    queries: tuple[PhotoHits, ...]
    units: dict[str, str] = field(default_factory=dict)
    ordered: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "index": self.index,
            "photos": self.photos,
            "complete": self.complete,
            "method": self.method,
            "way": self.method,  # the former name
            "same": list(self.same),
            "other": list(self.other),
            "where": {kind: list(labels) for kind, labels in self.where.items()},
            "where_not": {kind: list(labels) for kind, labels in self.where_not.items()},
            "given": {kind: list(labels) for kind, labels in self.given.items()},
            "queries": [query.to_dict() for query in self.queries],
        }


def search_photos(
    index: Index,
    model: PhotoClassifier,
    photos: Photo | Iterable[Photo],
    *,
    count: int = 10,
    where: Where | None = None,
    where_not: Where | None = None,
    same: Sequence[str] = (),
    other: Sequence[str] = (),
    given: Mapping[str, object] | None = None,
    per_label: int | None = None,
    guessed: bool = False,
    without: Sequence[bytes | PhotoKeys | None] | None = None,
    stored: Sequence[StoredPhoto | None] | None = None,
) -> list[PhotoHits]:
    """The photos of an index that are most like each of some photos.

    Whether the model is the one that made the index is not checked again; see `Index.refuse_other`.

    Args:
        index: an open index.
        model: the model that made it.
        photos: files, pictures or arrays; one, or several.
        count: how many photos to find at most, for each.
        where: what the labels of the found photos are to be, such as `{"restaurant": {"A", "B"}}`. A limit of a number
            or an ordered kind may be that of the query itself: `{"heat": "> this"}`; see `own_limits`.
        where_not: what they are not to be.
        same: kinds in which the found photo is to have the label of the query, such as `["dish"]`: photos are ranked by
            how similar they are and how probable it is that they meet this.
        other: kinds in which it is to have another label, such as `["restaurant"]`.
        given: what is known of the queries; see `PhotoClassifier.predict`. It sharpens `same` and `other`; without
            these, labels and sets of labels filter: photos are found that agree with it.
        per_label: how many photos of each fine label at most.
        guessed: whether photos without a fine label pass filters by what the model takes them for.
        without: per query, the fingerprint of a photo that is not to be found; see `Index.search`.
        stored: per query, the photo of the index that it is, if it is one; its own label says what "this" is.

    Raises:
        PhotoFileError: a photo that cannot be read.
        InputError: an argument is wrong.
    """
    if same or other:
        check_kinds(index.graph, same, other)
    elif given:
        where = agreeing(where, given)
    queries = embed_photos(model, photos, given)
    factors = None
    if same or other:
        parts = [condition_factors(posterior, same=same, other=other) for posterior in queries.posteriors]
        factors = np.concatenate([np.zeros((0, len(index.graph)), np.float32), *parts])
    options: dict[str, Any] = {"where_not": where_not, "per_label": per_label, "guessed": guessed}
    if not is_relative(where):
        found = index.search(queries.features, count, where=where, factors=factors, without=without, **options)
        return [PhotoHits(photo=name, hits=tuple(hits)) for name, hits in zip(queries.names, found, strict=True)]
    own: list[OwnLimits] = []
    for posterior in queries.posteriors:
        rows = slice(len(own), len(own) + len(posterior))
        own += own_limits(posterior, where, None if stored is None else stored[rows])
    result = []
    for place, (name, limits) in enumerate(zip(queries.names, own, strict=True)):
        one = slice(place, place + 1)
        hits = (
            []
            if not limits.possible
            else index.search(
                queries.features[one],
                count,
                where=limits.where,
                factors=None if factors is None else factors[one],
                without=None if without is None else without[one],
                **options,
            )[0]
        )
        result.append(PhotoHits(photo=name, hits=tuple(hits), limits=limits.words))
    return result


def search_index(
    folder: str | os.PathLike[str],
    photos: Sequence[str | os.PathLike[str]] = (),
    *,
    labels: Sequence[str] = (),
    model: str | os.PathLike[str] | None = None,
    count: int = 10,
    where: Sequence[str] = (),
    same: Sequence[str] = (),
    other: Sequence[str] = (),
    given: Sequence[str] = (),
    per_label: int | None = None,
    guessed: bool = False,
    others_only: bool = False,
    sort: str | None = None,
) -> SearchResult:
    """Search an index by name.

    Args:
        folder: the index.
        photos: photos to search by; of a folder, all photos in it.
        labels: fine labels to search by, each by the mean of its photos.
        model: the model that made the index; by default it is looked for where it was.
        count: how many photos to find at most, for each query.
        where: filters as text, `kind=label` or `kind!=label`; see `parse_where`.
        same: see `search_photos`, as for the others.
        other: kinds in which labels are to differ.
        given: what is known of the photos as text, `kind=label`; see `parse_given`. It sharpens `same` and `other`;
            without these, photos are found that agree with it.
        per_label: how many photos of each fine label at most.
        guessed: whether photos without a fine label pass filters by what the model takes them for.
        others_only: whether photos with the same content as the query are left out, whatever part of them
            is used.
        sort: a number or an ordered kind by which what is found is sorted; see `sorted_hits`.

    Raises:
        IndexFolderError: there is no index, it is damaged, or another model made it.
        ModelFolderError: the model is not where it was; name it.
        PhotoFileError: a photo that cannot be read.
        InputError: an argument is wrong.
    """
    if not photos and not labels:
        raise InputError("expected a photo or a fine label to search by, got neither")
    if given and not photos:
        raise InputError("expected a photo with what is given, which says what is on it; filter labels by where")
    files = photos_of(photos) if photos else []
    keys = [_keys(file) for file in files]
    index = Index.open(folder, small=None)  # a few queries are not worth reading all vectors
    if sort is not None:
        sorted_hits(index.graph, (), sort)  # a name that is not there shows before the model is loaded
    passed, refused = parse_where(index, where)
    evidence = parse_given(index.graph, given)
    queries: list[PhotoHits] = []
    options: dict[str, Any] = {"where": passed, "where_not": refused, "per_label": per_label, "guessed": guessed}
    if files:
        classifier = model_of_index(index.state, model)
        index.refuse_other(classifier, model or index.state.model.path)
        known = evidence_of(index.graph, evidence)
        conditions: dict[str, Any] = {"same": same, "other": other, "given": known}
        without = keys if others_only else None
        copies = [tuple(index.copies(photo_keys)) for photo_keys in keys]
        stored = [labelled_copy(photos_there) for photos_there in copies]
        results = search_photos(
            index, classifier, files, count=count, without=without, stored=stored, **conditions, **options
        )
        queries += [replace(query, in_index=there) for query, there in zip(results, copies, strict=True)]
    for label in labels:
        factors = label_factors(index.graph, label, same=same, other=other) if same or other else None
        limits = label_limits(index.graph, label, passed)
        hits = (
            []
            if not limits.possible
            else index.search_label(label, count, factors=factors, **{**options, "where": limits.where})
        )
        queries.append(PhotoHits(label=label, hits=tuple(hits), limits=limits.words))
    if sort is not None:
        queries = [replace(query, hits=sorted_hits(index.graph, query.hits, sort)) for query in queries]
    return SearchResult(
        index=os.fspath(folder),
        photos=len(index),
        complete=index.state.complete,
        method=index.method,
        same=tuple(same),
        other=tuple(other),
        where=passed,
        where_not=refused,
        given=evidence,
        queries=tuple(queries),
        units={name: index.graph.number(name).unit for name in index.graph.numbers if index.graph.number(name).unit},
        ordered=tuple(name for name in index.graph.kinds if index.graph.kind(name).ordered),
    )


def sorted_hits(graph: LabelGraph, hits: Sequence[Hit], by: str) -> tuple[Hit, ...]:
    """Hits by the values of a number, or by the labels of an ordered kind, rising; unknown ones last.

    A photo has the value of its fine label, or of what the model takes it for. Equal ones stay in their order.

    Args:
        graph: the label graph.
        hits: what was found.
        by: the name; with a minus sign before it, falling.

    Raises:
        InputError: the graph has no such number or ordered kind.
    """
    falling = by.startswith("-") and by not in (*graph.kinds, *graph.numbers)
    name = by[1:] if falling else by
    ordered = [kind for kind in graph.kinds if graph.kind(kind).ordered]
    if name not in (*ordered, *graph.numbers):
        names = ", ".join(repr(one) for one in (*graph.numbers, *ordered)) or "none"
        near = near_matches(name, (*graph.numbers, *ordered))
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"sort: expected a number or an ordered kind, of which the index has {names}; got {name!r}{hint}"
        )

    def place(hit: Hit) -> float:
        label = hit.label if hit.label is not None else hit.guess
        if name in graph.numbers:
            known = label is not None and label in graph.fine
            value = (
                float(graph.number(name).values[graph.fine_index(label)]) if known and label is not None else math.nan
            )
        else:
            labels = hit.ordered.get(name, ())
            value = float(graph.labels(name).index(labels[0])) if len(labels) == 1 else math.nan
        return math.inf if math.isnan(value) else -value if falling else value

    return tuple(sorted(hits, key=place))


def parse_where(index: Index, texts: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Filters from texts like `restaurant=B` and `dish!=mapo tofu`; `fine=...` is the fine label.

    The same kind several times means one of its labels, or none of them; of several limits of one number or ordered
    kind all hold. Names may hold equals signs themselves. Numbers and ordered kinds take limits, such as `price<=12`
    and `heat>=medium`, and numbers ranges, `price=10..15`. A limit may be that of the query: `price<this`; see
    `own_limits`.

    Raises:
        InputError: a text that is not of this form, or can be read in two ways.
        UnknownNameError: a kind or a label that is not there.
    """
    conditions: tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]] = ({}, {})
    for text in joined_limits(index.graph, texts):
        kind, names, negative = _parsed(index, text)
        _add(index, conditions[negative], kind, names)
    return conditions


def parse_labels(index: Index, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Labels from texts like `restaurant=B`; like `parse_where`, for callers with a separate list of refused labels."""
    labels_by_kind: dict[str, tuple[str, ...]] = {}
    for text in joined_limits(index.graph, texts):
        kind, names, _ = _parsed(index, text, negatives=False)
        _add(index, labels_by_kind, kind, names)
    return labels_by_kind


def _add(index: Index, conditions: dict[str, tuple[str, ...]], kind: str, names: tuple[str, ...]) -> None:
    """Add labels of which a photo is to have one, or a limit of a number beside those that it has."""
    before = conditions.get(kind, ())
    conditions[kind] = (" and ".join((*before, *names)),) if kind in index.graph.numbers else (*before, *names)


def _parsed(index: Index, text: str, *, negatives: bool = True) -> tuple[str, tuple[str, ...], bool]:
    """The kind and the labels of one filter, and whether it is one that is refused."""
    limit = name_and_condition(index.graph, text)
    if limit is not None:
        name, condition = limit
        if name in index.graph.numbers or (_THIS.fullmatch(condition) and _OWN not in index.graph.labels(name)):
            return name, (condition,), False
        return name, labels_of_range(index.graph, *limit), False
    labels = {FINE: index.engine.names, **{kind: index.graph.labels(kind) for kind in index.graph.kinds}}
    places = [place for place, character in enumerate(text) if character == "="]
    numbers = (text[: sign.start()].strip() for sign in re.finditer("!=|=", text))
    if number := next((one for one in numbers if one in index.graph.numbers), None):
        raise InputError(
            f"filter {text!r}: {number} is a number, of which there are limits and ranges: '{number}<7', "
            f"'{number}>=7', '{number}=5..7'"
        )
    if not places:
        if sign := _SIGN.search(text):
            kind = text[: sign.start()].strip()
            if kind in labels:
                raise without_order(index.graph, kind)
            raise unknown_name("kind", kind, (*labels, *index.graph.numbers))
        forms = "kind=label or kind!=label" if negatives else "kind=label"
        raise InputError(f"filter {text!r}: expected {forms}, such as 'fine={index.engine.names[0]}'")
    ways = [(text[:place], text[place + 1 :], False) for place in places]
    if negatives:
        ways += [(kind[:-1], label, True) for kind, label, _ in ways if kind.endswith("!")]
    known = [way for way in ways if way[0] in labels]
    good = [way for way in known if (index.engine.has_label(way[1]) if way[0] == FINE else way[1] in labels[way[0]])]
    if len(good) > 1:
        raise InputError(f"filter {text!r}: it can be read in two ways; ask in Python, where there is no doubt")
    if good:
        kind, label, negative = good[0]
        return kind, (label,), negative
    if not known:
        kind = ways[0][0].rstrip("<>≤≥ ")
        kind = kind.removesuffix("!") if negatives else kind
        if kind in labels:
            raise without_order(index.graph, kind)
        raise unknown_name("kind", kind, (*labels, *index.graph.numbers))
    kind, label, _ = known[-1]
    raise unknown_name("fine label" if kind == FINE else "label", label, labels[kind], f"of kind {kind!r}")


# ---- limits of the query itself --------------------------------------------------------------------------------------

_OWN = "this"
_SIGN = re.compile("[<>≤≥]")
_THIS = re.compile(f"(<=|>=|[<>≤≥]) {_OWN}(?= |$)")
"""A limit that each query has for itself."""


class OwnLimits(NamedTuple):
    """A filter in which the limits of one query stand for "this".

    Attributes:
        where: the filter.
        words: by name, what each limit is.
        possible: whether any photo can pass; none is hotter than the hottest.
    """

    where: Where | None
    words: dict[str, str]
    possible: bool = True


def is_relative(where: Where | None) -> bool:
    """Whether a filter has a limit that is that of the query, such as `{"heat": "> this"}`."""
    return any(_has_this(conditions) for conditions in (where or {}).values())


def labelled_copy(photos: Sequence[StoredPhoto]) -> StoredPhoto | None:
    """The first of these photos that has a fine label of its own; None if none has."""
    return next((photo for photo in photos if photo.label is not None), None)


def own_limits(
    posterior: Posterior, where: Where | None, stored: Sequence[StoredPhoto | None] | None = None
) -> list[OwnLimits]:
    """For each photo a filter with its own limits: its value of a number and its label of a kind.

    A photo that is in the index has those of its label there, so that none is above or below itself. For others, it is
    the expected value and the likeliest label.

    Args:
        posterior: what the model says of the photos.
        where: the filter.
        stored: for each photo the one of the index that it is; None if it is not in the index.

    Raises:
        InputError: a kind that has no order.
    """
    graph, names = posterior.graph, _relative_names(posterior.graph, where)
    means = {name: posterior.value(name).mean.tolist() for name in names if name in graph.numbers}
    best = {name: posterior.log_probs(name).argmax(dim=1).tolist() for name in names if name not in means}

    def place(name: str, row: int) -> float | str:
        photo = None if stored is None else stored[row]
        if photo is not None and name in photo.values:
            return photo.values[name]
        if photo is not None and len(photo.kinds.get(name, ())) == 1:
            return photo.kinds[name][0]
        return float(means[name][row]) if name in means else graph.labels(name)[best[name][row]]

    return [_with_limits(graph, where, {name: place(name, row) for name in names}) for row in range(len(posterior))]


def label_limits(graph: LabelGraph, label: str, where: Where | None) -> OwnLimits:
    """The same for a fine label: its value of a number, its label of a kind.

    Raises:
        InputError: a kind that has no order, or a value that is not known.
    """
    places: dict[str, float | str] = {}
    for name in _relative_names(graph, where):
        row = graph.fine_index(label)
        if name in graph.numbers:
            value = float(graph.number(name).values[row])
            found: list[float | str] = [] if math.isnan(value) else [value]
        else:
            kind = graph.kind(name)
            found = [kind.labels[place] for place in kind.coarse[kind.starts[row] : kind.starts[row + 1]].tolist()]
        if len(found) != 1:
            raise InputError(f"where: the {name} of {label!r} is not known, so nothing is above or below it")
        places[name] = found[0]
    return _with_limits(graph, where, places)


def _relative_names(graph: LabelGraph, where: Where | None) -> list[str]:
    """The numbers and kinds with a limit of the query."""
    names = [name for name, conditions in (where or {}).items() if _has_this(conditions)]
    for name in names:
        if name not in graph.numbers and not graph.kind(name).ordered:
            raise InputError(f"where: {name} has no order, so no label is above or below another")
    return names


def _has_this(conditions: object) -> bool:
    """Whether one of the conditions on a number or a kind is a limit of the query."""
    return any(isinstance(one, str) and _THIS.search(one) is not None for one in _listed(conditions))


def _listed(conditions: object) -> Collection[object]:
    return conditions if isinstance(conditions, Collection) and not isinstance(conditions, str) else (conditions,)


def _with_limits(graph: LabelGraph, where: Where | None, places: Mapping[str, float | str]) -> OwnLimits:
    """A filter with the limits of one query in place of "this"."""
    conditions: dict[str, Any] = dict(where or {})
    words: dict[str, str] = {}
    for name, place in places.items():
        texts = [str(one) for one in _listed(conditions[name])]
        shown = f"{place:.6g}" if isinstance(place, float) else place
        words[name] = " and ".join(match[0].replace(_OWN, shown) for text in texts for match in _THIS.finditer(text))
        if isinstance(place, float):
            conditions[name] = {text.replace(_OWN, repr(place)) for text in texts}
            continue
        kept = set(graph.labels(name))
        for text in texts:
            if match := _THIS.fullmatch(text):
                kept &= _labels_beside(graph, name, match[1], place)
        named = {text for text in texts if _THIS.fullmatch(text) is None}
        conditions[name] = kept & named if named else kept
        if not conditions[name]:
            return OwnLimits(where, words, possible=False)
    return OwnLimits(conditions or None, words)


def _labels_beside(graph: LabelGraph, kind: str, sign: str, label: str) -> set[str]:
    """The labels of an ordered kind above or below one of them; none at an end."""
    labels = graph.labels(kind)
    start, stop = (labels.index(label), len(labels)) if sign in ">=≥" else (0, labels.index(label) + 1)
    return set(labels[start:stop]) - ({label} if sign in "<>" else set())


def _keys(file: str) -> PhotoKeys:
    """The fingerprints of a photo; a mistyped name shows before the model is loaded."""
    return PhotoKeys(read_photo(file))
