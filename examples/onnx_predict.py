"""What is on a photo, without finegraph: `python onnx_predict.py model.onnx photo.jpg [KNOWN ...]`.

KNOWN is what is known beside the photo: restaurant=B, "price<=12", price>=8, price=10..15, price=12+-2 or price=12.
"""

import json
import re
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

onnxruntime.set_default_logger_severity(3)  # it warns of every input that may be left out
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
labels, how = (json.loads(session.get_modelmeta().custom_metadata_map[one]) for one in ("labels", "preprocessing"))
photo = ImageOps.exif_transpose(Image.open(sys.argv[2])).convert("RGB")
shape = [round(side * how["resize"] / min(photo.size)) if how["keep_shape"] else how["resize"] for side in photo.size]
middle = [(side + way * how["size"]) // 2 for way in (-1, 1) for side in shape]  # left, top, right, bottom
image = np.asarray(photo.resize(shape, Image.Resampling[how["interpolation"].upper()]).crop(middle))
inputs = {"images": image[None]}

numbers = labels.get("numbers", [])
ranges, estimates = np.tile([-np.inf, np.inf], (1, len(numbers), 1)), np.tile([0, np.inf], (1, len(numbers), 1))
names = [(kind["name"], label) for kind in labels["kinds"] for label in kind["labels"]]
known = []
for text in sys.argv[3:]:
    place = [place for place, one in enumerate(numbers) if re.match(re.escape(one["name"]) + "[<>=]", text)]
    if not place:
        known.append(tuple(text.split("=", 1)))
        continue
    number, told = numbers[place[0]], text[len(numbers[place[0]]["name"]) :]
    values = [float(one) for one in re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", told.replace("+-", " "))]
    len(values) in (1, 2) or sys.exit(f"{text}: expected one or two numbers, as in price<=12 or price=10..15")
    if "+-" in told:
        estimates[0, place] = values
    elif told[0] in "<>":
        ranges[0, place, "<>".index(told[0]) - 1] = values[0]
    elif len(values) == 2:
        ranges[0, place] = values
    else:  # this value, as exactly as the values of the graph differ
        ends = (np.divide, np.multiply) if number["scale"] == "log" else (np.subtract, np.add)
        ranges[0, place] = [end(values[0], number["resolution"]) for end in ends]
set(known) <= set(names) or sys.exit(f"the model does not know {sorted(set(known) - set(names))}")
if names:  # the same kind again: one of these
    inputs["evidence"] = np.array([[kind not in dict(known) or (kind, label) in known for kind, label in names]], "f4")
if numbers:
    inputs |= {"number_ranges": ranges, "number_estimates": estimates}

found = session.run(None, inputs)
told = dict(zip([output.name for output in session.get_outputs()], found, strict=True))
fine = np.exp(told["log_probs"][0])
for number in fine.argsort()[:-6:-1] if told["possible"][0] else sys.exit("no label agrees with that"):
    print(f"{fine[number]:7.2%}  fine: {labels['fine'][number]}")
for kind in labels["kinds"]:
    probs = np.exp(told["kind_log_probs"][0, kind["start"] : kind["stop"]])
    print(f"{probs.max():7.2%}  {kind['name']}: {kind['labels'][probs.argmax()]}")
for place, number in enumerate(numbers):
    low, _, high = told["number_quantiles"][0, place]
    print(f"{number['name']}: {told['number_means'][0, place]:.3g} {number['unit']}, {low:.3g} to {high:.3g} in 90 %")
