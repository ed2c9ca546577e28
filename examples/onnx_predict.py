"""What is on a photo, without finegraph: `python onnx_predict.py model.onnx photo.jpg [KIND=LABEL ...]`."""

import json
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
names = [(kind["name"], label) for kind in labels["kinds"] for label in kind["labels"]]
known = [tuple(text.split("=", 1)) for text in sys.argv[3:]]  # the same kind again: one of these
set(known) <= set(names) or sys.exit(f"the model does not know {sorted(set(known) - set(names))}")
allowed = np.array([[kind not in dict(known) or (kind, label) in known for kind, label in names]], np.float32)
found = session.run(None, {"images": image[None], **({"evidence": allowed} if names else {})})
told = dict(zip([output.name for output in session.get_outputs()], found, strict=True))
probs = np.exp(np.hstack([told["log_probs"], *([told["kind_log_probs"]] if names else [])])[0])
names = [("fine", label) for label in labels["fine"]] + names
for number in probs.argsort()[:-13:-1] if told["possible"][0] else sys.exit("no label agrees with that"):
    print(f"{probs[number]:7.2%}  {': '.join(names[number])}")
for place, number in enumerate(labels.get("numbers", [])):
    low, _, high = told["number_quantiles"][0, place]
    print(f"{number['name']}: {told['number_means'][0, place]:.3g} {number['unit']}, {low:.3g} to {high:.3g} in 90 %")
