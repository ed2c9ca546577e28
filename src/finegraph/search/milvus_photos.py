"""The photos of an index in Milvus, an engine of its own that many servers share: what a photo is there, and searches.

Everything that a filter asks of a photo is written beside its vector when it is stored, so that a filter is an
expression that Milvus carries out, exactly, whatever the number of labels:

    label, held        its fine label; its assumed label: that, or the best guess of the model
    coarse, guessed    numbers for the labels of its kinds and for what is known of it, by `label` and by `held`
    value_N, held_N    the value of the N-th number of the graph, by `label` and by `held`, on the inner scale
    seen               numbers for the labels of kinds that were seen on it
    guesses, probs     what the model holds it for, for conditions
    path, key, box     where it is, and the fingerprint of its content

A condition ("the same dish") orders by cosine times probability. Photos come by cosine, ever more of them, until no
photo further on can be among the best: none has a larger cosine than the last, nor a probability above the largest of
any label. So the answer is that of weighing all photos, up to the 16,384 that Milvus gives at a time.

Cost: 4 bytes per dimension and about 200 for the rest of a photo in Milvus, nothing here; one request for a search,
a few with conditions.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.data.samples import Box
from finegraph.errors import InputError, MissingExtraError, SearchEngineError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.inference.evidence import FINE
from finegraph.model.features.keys import PhotoKeys
from finegraph.search.conditions import Factors
from finegraph.search.filters import Where, label_numbers, wanted_interval, wanted_labels
from finegraph.search.hits import FIRST, GROWTH, MIN_SHARE, Hit, StoredPhoto
from finegraph.search.index_state import EngineEntry
from finegraph.search.nearest import Vectors
from finegraph.search.photo_engine import Ask
from finegraph.search.photo_table import ordered_labels, photo_kinds, values_of
from finegraph.search.segments import GUESSES, NONE, Columns

URI_VARIABLE, TOKEN_VARIABLE = "FINEGRAPH_MILVUS_URI", "FINEGRAPH_MILVUS_TOKEN"
MAX_FOUND = 16_384
"""The largest number of photos that Milvus gives for a query."""
_SECONDS = 60.0
"""How long a request may take."""
_MAX_TEXT = 65_535
_MAX_CODES = 4096
_MAX_LABELS = 1000
"""Of more labels that may meet a condition, all photos are read."""
_AT_ONCE = 1000
_FIELDS = ("path", "key", "box", "label", "held", "seen", "guesses", "probs")
Row = dict[str, Any]
"""A photo as Milvus has it."""


class MilvusCollection:
    """The photos of one index in Milvus: stored, listed, found by vector.

    Args:
        entry: the server, and the name of the collection there.
        dimensions: the size of the vectors.
        graph: the label graph.

    Raises:
        SearchEngineError: the server cannot be reached.
        MissingExtraError: the client of Milvus is not installed.
    """

    def __init__(self, entry: EngineEntry, dimensions: int, graph: LabelGraph) -> None:
        self.entry, self.dimensions, self.graph = entry, dimensions, graph
        self.codes = Codes(graph)
        self.uri = os.environ.get(URI_VARIABLE) or entry.uri
        self._client = _connected(self.uri)

    @cached_property
    def fine_numbers(self) -> Mapping[str, int]:
        """The number of each fine label of the graph, made once."""
        return {name: number for number, name in enumerate(self.graph.fine)}

    def create(self) -> None:
        """Make it, without photos, to be searched exactly."""
        from pymilvus import DataType

        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        text: dict[str, Any] = {"datatype": DataType.VARCHAR, "max_length": _MAX_TEXT}
        numbers: dict[str, Any] = {"datatype": DataType.ARRAY, "max_capacity": _MAX_CODES}
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=32)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=self.dimensions)
        for name in ("path", "key", "box", "label", "held"):
            schema.add_field(name, **text)
        for name in ("seen", "coarse", "guessed", "guesses"):
            schema.add_field(name, element_type=DataType.INT64, **numbers)
        schema.add_field("probs", element_type=DataType.FLOAT, **numbers)
        for number in range(len(self.graph.numbers)):
            schema.add_field(f"value_{number}", DataType.DOUBLE)
            schema.add_field(f"held_{number}", DataType.DOUBLE)
        with _asked(self.uri):
            self._client.create_collection(
                self.entry.collection, schema=schema, consistency_level="Bounded", timeout=_SECONDS
            )
        self._index("vector", "FLAT", metric_type="IP")
        for name in ("label", "held", "key", "path", "coarse", "guessed"):
            with contextlib.suppress(SearchEngineError):  # the embedded form has none for arrays, and needs none
                self._index(name, "INVERTED")
        self._load()

    @property
    def is_embedded(self) -> bool:
        """Whether the server is the embedded form of Milvus, in this process or in another."""
        with _asked(self.uri):
            return str(self._client.get_server_version()).startswith("milvus_lite")

    def exists(self) -> bool:
        """Whether it is there."""
        with _asked(self.uri):
            return bool(self._client.has_collection(self.entry.collection, timeout=_SECONDS))

    def load(self) -> None:
        """Have it ready to be searched.

        Raises:
            SearchEngineError: there is no such collection.
        """
        if not self.exists():
            raise SearchEngineError(
                f"{self.uri}: expected the collection {self.entry.collection!r} of this index, got a server without "
                "it; start the server that has it, or make the index again"
            )
        self._load()

    def make_lists(self, lists: int) -> None:
        """Divide it into lists for an approximate search; 0 for an exact one."""
        with _asked(self.uri):
            self._client.flush(self.entry.collection, timeout=_SECONDS)
            self._client.release_collection(self.entry.collection, timeout=_SECONDS)
            self._client.drop_index(self.entry.collection, "vector", timeout=_SECONDS)
        options = {"params": {"nlist": lists}} if lists else {}
        self._index("vector", "IVF_FLAT" if lists else "FLAT", metric_type="IP", **options)
        self._load()

    def _index(self, field: str, kind: str, **options: Any) -> None:
        with _asked(self.uri):
            wanted = self._client.prepare_index_params()
            wanted.add_index(field, index_type=kind, **options)
            # Dividing millions of vectors takes Milvus minutes, which the request waits for.
            self._client.create_index(self.entry.collection, wanted)

    def _load(self) -> None:
        with _asked(self.uri):
            self._client.load_collection(self.entry.collection)

    # ---- photos -----------------------------------------------------------------------------------------------------

    def put(self, columns: Columns) -> None:
        """Store photos; those that are there under the same path and box are replaced."""
        rows = list(self._rows(columns))
        for start in range(0, len(rows), _AT_ONCE):
            with _asked(self.uri):
                self._client.upsert(self.entry.collection, rows[start : start + _AT_ONCE], timeout=_SECONDS)

    def take_out(self, ids: Sequence[str]) -> None:
        """Remove photos."""
        for start in range(0, len(ids), _AT_ONCE):
            with _asked(self.uri):
                self._client.delete(self.entry.collection, ids=list(ids[start : start + _AT_ONCE]), timeout=_SECONDS)

    def compact(self) -> None:
        """Have Milvus forget what was removed."""
        with _asked(self.uri):
            self._client.flush(self.entry.collection, timeout=_SECONDS)
            self._client.compact(self.entry.collection, timeout=_SECONDS)

    def get(self, ids: Sequence[str]) -> Iterator[Row]:
        """The photos with these numbers that are there, as they were last written."""
        for start in range(0, len(ids), _AT_ONCE):
            some = list(ids[start : start + _AT_ONCE])
            with _asked(self.uri):
                yield from self._client.query(
                    self.entry.collection,
                    filter=f"id in {_list(some)}",
                    output_fields=["id", *_FIELDS],
                    consistency_level="Strong",
                    timeout=_SECONDS,
                )

    def listed(self, passing: str = "", fields: Sequence[str] = _FIELDS) -> Iterator[Row]:
        """All photos that pass an expression."""
        with _asked(self.uri):
            pages = self._client.query_iterator(
                self.entry.collection,
                batch_size=_AT_ONCE,
                filter=passing or 'id != ""',
                output_fields=["id", *fields],
                consistency_level="Strong",
                timeout=_SECONDS,
            )
        try:
            while True:
                with _asked(self.uri):
                    page = pages.next()
                if not page:
                    return
                yield from page
        finally:
            pages.close()

    def count(self, passing: str = "") -> int:
        """How many photos pass an expression."""
        with _asked(self.uri):
            found = self._client.query(
                self.entry.collection, filter=passing, output_fields=["count(*)"], timeout=_SECONDS
            )
        return int(found[0]["count(*)"])

    def nearest(
        self, queries: Float[Vectors, "sample axis"], count: int, passing: str, probes: int, fields: Sequence[str]
    ) -> list[list[Row]]:
        """The nearest photos of each query, best first, with the cosine as `distance`; 0 probes for an exact search."""
        settings: dict[str, Any] = {"metric_type": "IP", "params": {"nprobe": probes} if probes else {}}
        with _asked(self.uri):
            found = self._client.search(
                self.entry.collection,
                data=list(queries),
                limit=count,
                filter=passing,
                output_fields=list(fields),
                search_params=settings,
                timeout=_SECONDS,
            )
        return [[{**hit["entity"], "id": hit["id"], "distance": hit["distance"]} for hit in hits] for hits in found]

    def _rows(self, columns: Columns) -> Iterator[Row]:
        numbers = [self.graph.number(name) for name in self.graph.numbers]
        values = [number.standardised[0] for number in numbers]
        vectors = columns.vectors.astype(np.float32)
        for row, label in enumerate(columns.labels):
            seen = {kind: int(labels[row]) for kind, labels in columns.kinds.items() if labels[row] != NONE}
            guess = int(columns.guess_labels[row, 0])
            fine = NONE if label is None else self.fine_numbers.get(label, NONE)
            held = fine if label is not None else guess
            box = columns.boxes[row]
            kept = columns.guess_labels[row] != NONE
            held_name = label if label is not None else "" if guess == NONE else self.graph.fine[guess]
            content: Row = {
                "id": id_of(columns.paths[row], box),
                "vector": vectors[row],
                "path": path_text(columns.paths[row]),
                "key": columns.keys[row].tobytes().hex(),
                "box": "" if box is None else json.dumps(list(box)),
                "label": label or "",
                "held": held_name,
                "seen": [self.codes.label(kind, number) for kind, number in seen.items()],
                "coarse": self.codes.of(seen, fine),
                "guessed": self.codes.of(seen, held),
                "guesses": columns.guess_labels[row][kept].tolist(),
                "probs": columns.guess_probs[row][kept].tolist(),
            }
            for place, (number, scaled) in enumerate(zip(numbers, values, strict=True)):
                content[f"value_{place}"] = _value(scaled, number.known, fine)
                content[f"held_{place}"] = _value(scaled, number.known, held)
            yield content


class Codes:
    """Numbers for what is known of a photo.

    First come "this kind is known", then the labels of all kinds, then "this number is known".

    Args:
        graph: the label graph.
    """

    def __init__(self, graph: LabelGraph) -> None:
        self._graph = graph
        sizes = [len(graph.labels(kind)) for kind in graph.kinds]
        starts = np.cumsum([len(sizes), *sizes]).tolist()
        self._known = {kind: number for number, kind in enumerate(graph.kinds)}
        self._starts = dict(zip(graph.kinds, starts, strict=False))
        self._numbers = {name: starts[-1] + number for number, name in enumerate(graph.numbers)}

    def known(self, name: str) -> int:
        """For "this kind, or this number, is known"."""
        return self._numbers[name] if name in self._numbers else self._known[name]

    def label(self, kind: str, number: int) -> int:
        """For a label of a kind."""
        return int(self._starts[kind] + number)

    def labels_in(self, codes: Iterable[int]) -> dict[str, int]:
        """The labels by kind that codes stand for."""
        named = {}
        for code in codes:
            kind = max((one for one, start in self._starts.items() if start <= code), key=self._starts.__getitem__)
            named[kind] = code - self._starts[kind]
        return named

    def of(self, seen: dict[str, int], fine: int) -> list[int]:
        """All that is known of a photo: by the labels that were seen on it, else by the parents of a fine label."""
        codes = []
        for name in self._graph.kinds:
            kind = self._graph.kind(name)
            inside = 0 <= fine < len(self._graph)
            parents = kind.coarse[kind.starts[fine] : kind.starts[fine + 1]].tolist() if inside else []
            labels = [seen[name]] if name in seen else parents
            if labels:
                codes += [self.known(name), *(self.label(name, label) for label in labels)]
        for name in self._graph.numbers:
            if 0 <= fine < len(self._graph) and self._graph.number(name).known[fine]:
                codes.append(self.known(name))
        return codes


class MilvusPhotos:
    """The photos of an index that Milvus holds; see `PhotoEngine`.

    Attributes:
        collection: the photos there.
    """

    def __init__(self, entry: EngineEntry, dimensions: int, graph: LabelGraph) -> None:
        """Connect; see `MilvusCollection` for what may be wrong."""
        self.collection = MilvusCollection(entry, dimensions, graph)
        self.collection.load()
        self._graph, self._entry = graph, entry

    def __len__(self) -> int:
        return self.collection.count()

    @property
    def method(self) -> str:
        """See `PhotoEngine`, as for the others."""
        return "approximate" if self._entry.lists else "exact"

    @property
    def names(self) -> Sequence[str]:
        """The fine labels of the graph; those that photos have beside them are not listed."""
        return self._graph.fine

    def has_label(self, label: str) -> bool:
        """Whether the graph or a photo has a fine label."""
        return label in self.collection.fine_numbers or bool(
            label and self.collection.count(f"label == {_text(label)}")
        )

    def vectors_of(self, label: str) -> Float[Vectors, "photo axis"]:
        """The vectors of the photos of a fine label."""
        rows = [row["vector"] for row in self.collection.listed(f"label == {_text(label)}", ["vector"])]
        return np.array(rows, np.float32).reshape(len(rows), self.collection.dimensions)

    def copies(self, keys: bytes | PhotoKeys) -> list[StoredPhoto]:
        """The photos with the content of a photo. Cost: with boxes, one look at each photo that has one."""
        whole = keys if isinstance(keys, bytes) else keys.whole
        rows = list(self.collection.listed(f"key == {_text(whole.hex())}"))
        if isinstance(keys, PhotoKeys):
            rows = [row for row in rows if not row["box"]]
            rows += [row for row in self.collection.listed('box != ""') if _is_copy(row, keys)]
        return [self._photo(row) for row in rows]

    def search(
        self,
        queries: Float[Vectors, "sample axis"],
        ask: Ask,
        factors: Float[Factors, "sample fine"] | None,
        without: Sequence[bytes | PhotoKeys | None] | None,
    ) -> list[list[Hit]]:
        """The best photos for each query."""
        if ask.count > MAX_FOUND:
            raise InputError(f"count: expected at most {MAX_FOUND}, which is what Milvus gives, got {ask.count}")
        passing = self._expression(ask)
        return [
            self._best(
                queries[row : row + 1],
                ask,
                passing,
                None if factors is None else factors[row],
                None if without is None else without[row],
            )
            for row in range(len(queries))
        ]

    def _best(
        self, query: Vectors, ask: Ask, passing: str, factors: Factors | None, keys: bytes | PhotoKeys | None
    ) -> list[Hit]:
        """The best photos for one query: ever more by cosine, until the best are surely among them."""
        if factors is not None:
            labels = np.flatnonzero(factors > 0)
            if not len(labels):
                return []
            if len(labels) <= _MAX_LABELS:
                passing = _both(passing, f"array_contains_any(guesses, {labels.tolist()})")
        if isinstance(keys, bytes):
            passing = _both(passing, f"key != {_text(keys.hex())}")
        plain = factors is None and ask.per_label is None and not isinstance(keys, PhotoKeys)
        asked = ask.count if plain else min(MAX_FOUND, FIRST * ask.count)
        while True:
            rows = self._nearest(query, asked, passing)
            last = len(rows) < asked or asked == MAX_FOUND or plain
            weighed = _weighed([row for row in rows if not _is_copy(row, keys)], factors)
            kept = _diverse(weighed, ask.count, ask.per_label)
            if last or (len(kept) == ask.count and _is_sure(kept, rows[-1]["distance"], factors)):
                return [self._hit(row) for row in kept]
            asked = min(MAX_FOUND, asked * GROWTH)

    def _nearest(self, query: Vectors, count: int, passing: str) -> list[Row]:
        """The nearest photos that pass; through more lists where fewer photos of each pass, as the built-in search."""
        probes, lists = self._entry.probes, self._entry.lists
        possible = count
        if passing and lists:
            possible = self.collection.count(passing)
            if not possible:
                return []
            share = max(len(self), 1) / possible
            probes = min(lists, math.ceil(probes * share))
        rows = self.collection.nearest(query, count, passing, probes, _FIELDS)[0]
        if probes < lists and len(rows) < min(count, possible):
            rows = self.collection.nearest(query, count, passing, lists, _FIELDS)[0]
        return rows

    def _expression(self, ask: Ask) -> str:
        """A filter as Milvus reads it."""
        parts = []
        for wanted, positive in ((ask.where, True), (ask.where_not, False)):
            parts += [self._condition(kind, labels, positive, ask.guessed) for kind, labels in _items(wanted)]
        return " and ".join(f"({part})" for part in parts)

    def _condition(self, kind: str, labels: object, positive: bool, guessed: bool) -> str:
        """One part of a filter: one of these labels, or surely none of them."""
        codes, known_in = self.collection.codes, "guessed" if guessed else "coarse"
        if kind == FINE:
            field = "held" if guessed else "label"
            several = wanted_labels(kind, labels)
            for label in several:
                if not isinstance(label, str) or not self.has_label(label):
                    raise unknown_name("fine label", label, self.names)
            return f"{field} in {_list(several)}" if positive else f'{field} != "" and {field} not in {_list(several)}'
        if kind in self._graph.numbers:
            field = f"{'held' if guessed else 'value'}_{self._graph.numbers.index(kind)}"
            low, high = wanted_interval(self._graph, kind, labels)
            limits = [f"{field} >= {float(low)!r}"] * math.isfinite(low) + [
                f"{field} <= {float(high)!r}"
            ] * math.isfinite(high)
            inside = " and ".join(limits) or f"{field} == {field}"
            known = f"array_contains({known_in}, {codes.known(kind)})"
            return f"{known} and ({inside})" if positive else f"{known} and not ({inside})"
        numbers = sorted(codes.label(kind, number) for number in label_numbers(self._graph, kind, labels))
        has = f"array_contains_any({known_in}, {numbers})"
        return has if positive else f"array_contains({known_in}, {codes.known(kind)}) and not {has}"

    def _photo(self, row: Row) -> StoredPhoto:
        """A photo for people and programs."""
        label, held = row["label"], row["held"]
        inside = self.collection.fine_numbers.get(held, NONE)
        kinds = photo_kinds(self._graph, self.collection.codes.labels_in(row["seen"]), inside if label else NONE)
        return StoredPhoto(
            path=path_of(row["path"]),
            label=label or None,
            guess=None if label else held or None,
            kinds=kinds,
            values=values_of(self._graph, inside),
            ordered=ordered_labels(self._graph, kinds, inside),
        )

    def _hit(self, row: Row) -> Hit:
        photo = self._photo(row)
        # Vectors of half precision are not quite of length 1, and a cosine of 1.00003 is none.
        similarity = min(max(float(row["distance"]), -1.0), 1.0)
        probability = row.get("probability")
        return Hit(
            path=photo.path,
            label=photo.label,
            guess=photo.guess,
            kinds=photo.kinds,
            values=photo.values,
            score=similarity if probability is None else min(float(row["score"]), 1.0),
            similarity=similarity,
            probability=None if probability is None else float(probability),
        )


def id_of(path: str, box: Box | None) -> str:
    """What a photo is called in Milvus: the same photo has the same name, so storing it again replaces it."""
    content = os.fsencode(path) + (b"" if box is None else b"\0" + repr(tuple(float(side) for side in box)).encode())
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def path_text(path: str) -> str:
    """A path as text that any server takes: itself; as a JSON string where it is not Unicode."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(path)
    return path


def path_of(text: str) -> str:
    """The path from `path_text`."""
    return str(json.loads(text)) if text.startswith('"') else text


def below(folder: str) -> str:
    """The expression for a photo of this path, or all photos in this folder and below; paths are absolute."""
    parts = [f"path == {_text(path_text(folder))}"]
    prefix = folder.rstrip(os.sep) + os.sep
    for start in (path_text(prefix), json.dumps(prefix)[:-1]):
        end = start[:-1] + chr(ord(start[-1]) + 1)
        parts.append(f"(path >= {_text(start)} and path < {_text(end)})")
    return " or ".join(parts)


def with_labels(labels: Iterable[str]) -> str:
    """The expression for photos of some fine labels."""
    return f"label in {_list(labels)}"


def box_of(row: Row) -> Box | None:
    """The box of a photo."""
    return Box(*json.loads(row["box"])) if row["box"] else None


def _weighed(rows: list[Row], factors: Factors | None) -> list[Row]:
    """Photos by cosine and probability together, if there is a condition, without the improbable ones."""
    if factors is None:
        return rows
    padded = np.append(factors, np.float32(0.0))  # for NONE
    labels = np.full((len(rows), GUESSES), NONE, np.int64)
    probs = np.zeros((len(rows), GUESSES), np.float32)
    for place, row in enumerate(rows):
        labels[place, : len(row["guesses"])] = row["guesses"]
        probs[place, : len(row["probs"])] = row["probs"]
    probability = (padded[labels] * probs).sum(axis=1)
    least = MIN_SHARE * float(probability.max(initial=0.0))
    cosines = np.maximum(np.array([row["distance"] for row in rows], np.float32), 0.0)
    scores = cosines * probability
    return [
        {**rows[place], "score": scores[place], "probability": probability[place]}
        for place in np.argsort(-scores, kind="stable").tolist()
        if probability[place] > 0 and probability[place] >= least
    ]


def _is_sure(kept: Sequence[Row], last_cosine: float, factors: Factors | None) -> bool:
    """Whether no photo that is less similar than the last one can change what was kept."""
    if factors is None:
        return True
    largest = float(factors.max())
    reachable = max(last_cosine, 0.0) * largest
    return kept[-1]["score"] >= reachable and all(row["probability"] >= MIN_SHARE * largest for row in kept)


def _diverse(rows: Sequence[Row], count: int, per_label: int | None) -> list[Row]:
    """The photos that are taken, best first."""
    taken: Counter[str] = Counter()
    kept: list[Row] = []
    for row in rows:
        if len(kept) == count:
            break
        held = row["held"]
        if per_label is None or not held or taken[held] < per_label:
            taken[held] += 1
            kept.append(row)
    return kept


def _is_copy(row: Row, keys: bytes | PhotoKeys | None) -> bool:
    """Whether a photo has the content of another, whatever part of it."""
    if not isinstance(keys, PhotoKeys):
        return False  # a single fingerprint is part of the filter
    box = box_of(row)
    return bool(bytes.fromhex(row["key"]) == (keys.whole if box is None else keys.of(box)))


def _items(wanted: Where | None) -> Iterable[tuple[str, object]]:
    return (wanted or {}).items()


def _both(one: str, two: str) -> str:
    return f"{one} and ({two})" if one else two


def _text(value: str) -> str:
    """A text in an expression."""
    return json.dumps(value, ensure_ascii=False)


def _list(values: Iterable[object]) -> str:
    return f"[{', '.join(_text(str(value)) for value in values)}]"


def _value(values: NDArray[np.float64], known: NDArray[np.bool_], fine: int) -> float:
    return float(values[fine]) if 0 <= fine < len(values) and known[fine] else 0.0


def _connected(uri: str) -> Any:
    """A client of a server, or of a file that the embedded form opens."""
    try:
        from pymilvus import MilvusClient
    except ImportError as error:
        raise MissingExtraError(
            'this index is in Milvus, whose client is not installed; install it with `pip install "finegraph[milvus]"`'
        ) from error
    for name in ("pymilvus", "grpc._server"):  # they print what is raised anyway, and what the embedded form lacks
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with _asked(uri):
        return MilvusClient(uri, token=os.environ.get(TOKEN_VARIABLE, ""), timeout=10.0)


@contextlib.contextmanager
def _asked(uri: str) -> Iterator[None]:
    """Say which server could not do what it was asked to."""
    import grpc
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except (MilvusException, grpc.RpcError, grpc.FutureTimeoutError) as error:
        reason = getattr(error, "message", "") or str(error)
        raise SearchEngineError(
            f"{uri}: Milvus does not answer as it should: {reason}; see that the server runs, that its address and "
            f"token are right ({URI_VARIABLE}, {TOKEN_VARIABLE}), and that no other process has opened an embedded one"
        ) from error
