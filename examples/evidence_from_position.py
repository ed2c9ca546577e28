"""Soft evidence: where a photo was taken makes some restaurants likelier than others.

    python examples/evidence_from_position.py MODEL photo.jpg LATITUDE LONGITUDE places.csv

`places.csv` has a row per restaurant: `restaurant,latitude,longitude`. A phone is off by some tens of metres, so the
likelihood of a restaurant falls with its distance; a small constant leaves room for photos that were taken at home.
"""

import csv
import math
import sys
from pathlib import Path

import finegraph as fg

SPREAD, ANYWHERE = 40.0, 1e-3  # metres, and the likelihood of a photo from anywhere
EARTH = 6_371_000.0

model = fg.load(sys.argv[1])
latitude, longitude = (math.radians(float(word)) for word in sys.argv[3:5])


def distance(place: dict[str, str]) -> float:
    """Metres from the photo to a place; close by, the earth is flat."""
    north = math.radians(float(place["latitude"])) - latitude
    east = (math.radians(float(place["longitude"])) - longitude) * math.cos(latitude)
    return EARTH * math.hypot(north, east)


with Path(sys.argv[5]).open(newline="", encoding="utf-8") as file:
    near = {
        row["restaurant"]: ANYWHERE + math.exp(-0.5 * (distance(row) / SPREAD) ** 2) for row in csv.DictReader(file)
    }
likelihood = {label: near.get(label, ANYWHERE) for label in model.graph.labels("restaurant")}
for words, given in (("by the photo alone", None), ("with the position", {"restaurant": likelihood})):
    prediction = model.predict(sys.argv[2], given=given)
    print(f"{words}: {prediction.top[0].label} ({prediction.top[0].probability:.1%}); sure: {prediction.sure}")
