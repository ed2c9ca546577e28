"""Ask a server of `finegraph serve`, with nothing but the standard library.

python examples/http_client.py http://127.0.0.1:8000 photo.jpg [KIND=LABEL ...]
"""

import json
import sys
import urllib.request
import uuid
from pathlib import Path

address, photo, *known = sys.argv[1:]
boundary = uuid.uuid4().hex
parts = [("photo", f'; filename="{Path(photo).name}"', Path(photo).read_bytes())]
parts += [("given", "", text.encode()) for text in known]
body = (
    b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content + b"\r\n"
        for name, more, content in parts
    )
    + f"--{boundary}--\r\n".encode()
)
request = urllib.request.Request(
    f"{address}/v1/predict", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}
)
with urllib.request.urlopen(request) as response:
    answer = json.load(response)["photos"][0]
print(answer["words"])
for one in answer["top"]:
    print(f"{one['probability']:7.2%}  {one['label']}")
for question in answer["questions"]:
    print("to ask next:", question["text"])
