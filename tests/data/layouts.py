"""The same six photos in every layout."""

from data_files import save

PHOTOS = [  # class, name, split, box
    ("001.Albatross", "a1.jpg", "train", (10, 5, 30, 20)),
    ("001.Albatross", "a2.jpg", "test", (0, 0, 64, 48)),
    ("001.Albatross", "a3.jpg", "train", (1.5, 2, 20, 20)),
    ("002.Wren", "w1.jpg", "train", (2, 3, 40, 30)),
    ("002.Wren", "w2.jpg", "test", (5, 6, 7, 8)),
    ("002.Wren", "w3.jpg", "train", (5, 6, 50, 40)),
]


def write_photos(folder):
    for number, (label, name, _, _) in enumerate(PHOTOS):
        save(folder / label / name, number)


def write_cub(folder):
    """The layout of CUB-200-2011, its photos in `images`."""
    write_photos(folder / "images")
    lines = {"images": [], "image_class_labels": [], "train_test_split": [], "bounding_boxes": []}
    for number, (label, name, split, box) in enumerate(PHOTOS, start=1):
        lines["images"].append(f"{number} {label}/{name}")
        lines["image_class_labels"].append(f"{number} {int(label[:3])}")
        lines["train_test_split"].append(f"{number} {int(split == 'train')}")
        lines["bounding_boxes"].append(f"{number} {' '.join(f'{side:.1f}' for side in box)}")
    lines["classes"] = ["1 001.Albatross", "2 002.Wren"]
    for name, rows in lines.items():
        (folder / f"{name}.txt").write_text("\n".join(rows) + "\n")


def write_manifest(path, photos):
    """A manifest whose paths lead to the folder `photos` beside it."""
    rows = ["path,label,split,x,y,width,height"]
    for label, name, split, box in reversed(PHOTOS):
        rows.append(f"{photos}/{label}/{name},{label},{split},{','.join(map(str, box))}")
    path.write_text("\n".join(rows) + "\n")
