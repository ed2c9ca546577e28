"""A check of the built site: every link leads somewhere, and no page loads anything from elsewhere.

    python docs/site_check.py build/docs

Links are followed to their page and their place in it, in every page, also those that the code and the theme wrote.
Scripts, styles, fonts and pictures must be files of the site. Ends with 1 and a list if something is wrong.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src"), ("video", "src")}
"""What a browser fetches by itself, beside the links that people follow."""

CREDITS = {"https://www.sphinx-doc.org/", "https://pradyunsg.me", "https://github.com/pradyunsg/furo"}
"""Links in the foot of every page to those who made its theme; nothing is loaded from there."""


class Page(HTMLParser):
    """The places of a page, the links in it, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a tag names."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.places.add(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)
            elif (tag, name) in LOADED and value and not value.startswith("data:"):
                self.loaded.append(value)


def faults(site: Path) -> list[str]:
    """What is wrong with a site."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site}: no pages; build the site first"]
    for path, page in pages.items():
        where = path.relative_to(site)
        for target in [*page.links, *page.loaded]:
            if urlparse(target).scheme in ("http", "https") or target.startswith("//"):
                found += [] if target in CREDITS else [f"{where}: outside: {target}"]
            elif not urlparse(target).scheme:
                found += [f"{where}: {fault}" for fault in _faults_of(target, path, pages)]
    for path in sorted(site.rglob("*.css")):
        for target in re.findall(r"(?:url\(|@import )['\"]?(https?:)?//", path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(site)}: loads from outside: {target}")
    return found


def _faults_of(target: str, path: Path, pages: dict[Path, Page]) -> list[str]:
    """What is wrong with a link to the site itself."""
    address, place = urldefrag(target)
    file = (path.parent / unquote(address.partition("?")[0])).resolve() if address.partition("?")[0] else path
    if not file.exists():
        return [f"no such file: {target}"]
    if place and file in pages and unquote(place) not in pages[file].places:
        return [f"no such place: {target}"]
    return []


def main() -> None:
    """Check the site that is named."""
    site = Path(sys.argv[1]).resolve()
    found = faults(site)
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages: every link leads somewhere")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
