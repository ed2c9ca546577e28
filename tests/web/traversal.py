"""Ways out of the folders of a server: paths in requests, and links where photos are expected.

Each is made from a seed, so that a short run in the tests is a sample of the long one in `benchmarks/bad_files.py`.
What lies outside holds `SECRET`, or is a photo of one colour, `SECRET_COLOUR`, so that it is known in whatever form it
comes.
"""

import io
import os
import socket
from pathlib import Path

from PIL import Image, PngImagePlugin

import tiny_classifier as tiny

SECRET = b"nobody's business"
SECRET_COLOUR = (255, 0, 255)
_PREFIXES = (
    "/",
    "/assets/",
    "/assets",
    "/shared/",
    "/v1/samples/",
    "/v1/photos/",
    "/v1/samples/0/",
    "/label/",
    "/docs/",
    "//",
    "/v1/",
)
_UP = (
    "../",
    "..%2f",
    "%2e%2e/",
    "%2e%2e%2f",
    "..\\",
    "..%5c",
    "%252e%252e%252f",
    "....//",
    "..;/",
    "%c0%ae%c0%ae/",
    "..%c0%af",
    "\uff0e\uff0e/",
    "./../",
    "..%00/",
    "%2e./",
    "..//",
)
_ENDS = ("", "%00", "%00.png", "/small", "?.png", "#.png", "/.", "%20", ";.png", "::$DATA")


class Outside:
    """A folder with a folder of photos in it, and what lies outside of that."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.photos, self.elsewhere = self.folder / "photos", self.folder / "elsewhere"
        (self.photos / "a").mkdir(parents=True)
        self.elsewhere.mkdir()
        for name in ("0.png", "1.png", "a/2.png"):
            tiny.picture().save(self.photos / name)
        (self.folder / "secret.png").write_bytes(SECRET)
        (self.elsewhere / "secret.txt").write_bytes(SECRET)
        note = PngImagePlugin.PngInfo()
        note.add_text("note", SECRET.decode())
        Image.new("RGB", (60, 40), SECRET_COLOUR).save(self.elsewhere / "0.png", pnginfo=note)
        self._links = 0

    def targets(self):
        """The files outside."""
        return (self.folder / "secret.png", self.elsewhere / "secret.txt", self.elsewhere / "0.png")

    def request_target(self, chance):
        """What a request may ask for to come out: a path that climbs, or names a file."""
        file = chance.choice([*map(str, self.targets()), "/etc/passwd", "/proc/self/environ"])
        prefix = chance.choice(_PREFIXES)
        if chance.random() < 0.2:
            way = chance.choice([file, file.lstrip("/"), f"file://{file}", file.replace("/", "%2f"), f"//{file}"])
        else:
            up = chance.choice(_UP)
            relative = chance.choice(
                [os.path.relpath(file, "/"), os.path.basename(file), f"elsewhere/{Path(file).name}"]
            )
            way = up * chance.randint(1, 14) + relative
        return (prefix + way + chance.choice(_ENDS)).replace(" ", "%20").encode()

    def plant(self, chance, path):
        """Put something that leads out in the place of a photo."""
        target = chance.choice([*self.targets(), Path("/etc/passwd"), Path("/proc/self/environ"), Path("/dev/zero")])
        way = chance.randrange(6)
        path.unlink()
        if way == 0:
            path.symlink_to(target)
        elif way == 1:
            path.symlink_to(os.path.relpath(target, path.parent))
        elif way == 2:  # over another link, which has the name of no photo
            path.symlink_to(self._link(target))
        elif way == 3:  # through a folder
            path.symlink_to(self._link(target.parent) / target.name)
        elif way == 4:
            path.symlink_to(f"/proc/self/root{target}")
        else:  # down and out again
            path.symlink_to(path.parent / "a" / ".." / os.path.relpath(target, path.parent))

    def _link(self, target):
        self._links += 1
        made = self.photos / "a" / f".link{self._links}"
        made.symlink_to(target)
        return made

    def restore(self, path):
        """Put a photo there again."""
        path.unlink()
        tiny.picture().save(path)


def leaks(content):
    """Whether an answer holds something of what lies outside."""
    if SECRET in content or b"root:x:0" in content or b"PATH=" in content:
        return True
    try:
        picture = Image.open(io.BytesIO(content)).convert("RGB")
    except OSError:
        return False
    red, green, blue = picture.getpixel((picture.width // 2, picture.height // 2))
    return red > 200 and green < 60 and blue > 200


def raw_get(address, target):
    """The body of the answer to a request for a target that no client would send as it is."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % target)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts).partition(b"\r\n\r\n")[2]


def ways_out(server, outside, chance, paths, links):
    """Try ways out of a server of `outside.photos`, and name those that led out."""
    found = [
        target
        for target in (outside.request_target(chance) for _ in range(paths))
        if leaks(raw_get(server.address, target))
    ]
    for _ in range(links):
        number = chance.randrange(len(server.state.samples.paths))
        path = Path(server.state.samples.paths[number])
        outside.plant(chance, path)
        for target in (f"/v1/samples/{number}", f"/v1/samples/{number}/small"):
            if leaks(raw_get(server.address, target.encode())):
                found.append(f"{path} -> {os.readlink(path)}")
        outside.restore(path)
    return found
