"""Teach a model everything that was sorted into folders during the day; for a nightly job.

    python examples/nightly_teaching.py MODEL INBOX

INBOX has a folder per fine label. A photo is taught once: its lesson is named by its content, so the job may run again
after a crash, or over the same folder every night. Folders with unknown names are listed and left alone.
"""

import hashlib
import sys
from pathlib import Path

import finegraph as fg
from finegraph.errors import PhotoFileError

model = fg.load(sys.argv[1])
taught = {lesson.id for lesson in model.lessons}
for folder in sorted(path for path in Path(sys.argv[2]).iterdir() if path.is_dir()):
    if folder.name not in model.graph.fine:
        print(f"unknown label, left alone: {folder.name}")
        continue
    for photo in sorted(path for path in folder.iterdir() if path.is_file()):
        lesson_id = hashlib.sha256(photo.read_bytes()).hexdigest()[:32]
        if lesson_id in taught:
            continue
        try:
            model.teach(folder.name, [photo], person="nightly", lesson_id=lesson_id)
        except PhotoFileError as error:
            print(error)
            continue
        print(f"taught {folder.name}: {photo.name}")
