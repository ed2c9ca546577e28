"""The metrics of an evaluation by obvious loops over photos; they share no code with the package.

Everything is a plain list: probabilities of fine labels and of each kind, true fine labels (None where not known),
photo labels, and per kind the set of parents of each fine label (empty where unknown).
"""

import math


def best(values):
    return max(range(len(values)), key=lambda index: (values[index], -index))


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else None


def truth_of_kind(photo, kind, parents):
    """The set of right labels; empty where it is not known."""
    if photo["seen"].get(kind) is not None:
        return {photo["seen"][kind]}
    return parents[kind][photo["fine"]] if photo["fine"] is not None else set()


def metrics(photos, parents, fine_count):
    """All metrics. A photo has probs, kinds (kind -> probs), fine, seen (kind -> label), sure (kind, label) or None."""
    kinds = list(parents)
    labelled = [photo for photo in photos if photo["fine"] is not None]
    found = {"photos": len(photos), "labelled": len(labelled)}
    ranks = [
        sorted(range(fine_count), key=lambda i, p=photo: (-p["probs"][i], i)).index(photo["fine"]) + 1
        for photo in labelled
    ]
    found["top1"] = mean(rank <= 1 for rank in ranks)
    found["top5"] = mean(rank <= 5 for rank in ranks)
    found["nll"] = mean(-math.log(photo["probs"][photo["fine"]]) for photo in labelled)
    found["kinds"], found["kind_photos"] = {}, {}
    for kind in kinds:
        judged = [photo for photo in photos if truth_of_kind(photo, kind, parents)]
        found["kind_photos"][kind] = len(judged)
        found["kinds"][kind] = mean(
            best(photo["kinds"][kind]) in truth_of_kind(photo, kind, parents) for photo in judged
        )
    found["full_path"] = mean(
        best(photo["probs"]) == photo["fine"]
        and all(
            not truth_of_kind(photo, kind, parents) or best(photo["kinds"][kind]) in truth_of_kind(photo, kind, parents)
            for kind in kinds
        )
        for photo in labelled
    )
    found["inconsistency"] = mean(
        any(
            parents[kind][best(photo["probs"])]
            and best(photo["kinds"][kind]) not in parents[kind][best(photo["probs"])]
            for kind in kinds
        )
        for photo in photos
    )
    found["mistakes"] = mistakes(labelled, parents)
    found["mistake_severity"] = found["mistakes"]["differing"]
    found["per_class"], found["class_photos"] = {}, {}
    for label in range(fine_count):
        own = [photo for photo in labelled if photo["fine"] == label]
        if own:
            found["per_class"][label] = mean(best(photo["probs"]) == label for photo in own)
            found["class_photos"][label] = len(own)
    found["mean_per_class"] = mean(found["per_class"].values())
    found["sure"] = sure(photos, parents)
    return found


def mistakes(labelled, parents):
    wrong = [photo for photo in labelled if best(photo["probs"]) != photo["fine"]]
    rows = []
    for photo in wrong:
        row = {}
        for kind, of_fine in parents.items():
            one, two = of_fine[best(photo["probs"])], of_fine[photo["fine"]]
            row[kind] = None if not one or not two else not (one & two)
        rows.append(row)
    counts = [(list(row.values()).count(True), list(row.values()).count(False)) for row in rows]
    return {
        "count": len(wrong),
        "differing": mean(differing for differing, _ in counts),
        "shared": mean(shared for _, shared in counts),
        "unknown": mean(len(parents) - sum(both) for both in counts),
        "share": mean(differing / (differing + shared) for differing, shared in counts if differing + shared),
        "by_kind": {kind: mean(row[kind] for row in rows if row[kind] is not None) for kind in parents},
    }


def sure(photos, parents):
    right = []
    stated = [photo for photo in photos if photo["sure"] is not None]
    for photo in stated:
        kind, label = photo["sure"]
        if kind is None:
            right.append(None if photo["fine"] is None else photo["fine"] == label)
        else:
            truth = truth_of_kind(photo, kind, parents)
            right.append(label in truth if truth else None)
    judged = [one for one in right if one is not None]
    levels = {None: "fine", **{kind: kind for kind in parents}}
    return {
        "realised_risk": mean(not one for one in judged),
        "coverage": mean(photo["sure"] is not None for photo in photos),
        "judged": len(judged),
        "unjudged": len(right) - len(judged),
        "levels": {
            name: mean(photo["sure"] is not None and photo["sure"][0] == kind for photo in photos)
            for kind, name in levels.items()
        },
        "wrong_at": {
            name: mean(
                not one
                for photo, one in zip(stated, right, strict=True)
                if photo["sure"][0] == kind and one is not None
            )
            for kind, name in levels.items()
        },
    }


def calibration_error(confidences, rights, bins):
    """The error with bins of equal mass, for confidences that are all different."""
    order = sorted(range(len(confidences)), key=lambda place: confidences[place])
    error, start = 0.0, 0
    for number in range(1, bins + 1):
        end = round(number * len(order) / bins)
        own = order[start:end]
        error += abs(sum(rights[i] for i in own) - sum(confidences[i] for i in own)) / len(order)
        start = end
    return error
