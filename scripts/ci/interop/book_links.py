"""Checks the links of a built book: book_links.py DIRECTORY

A link leads to a file of the directory, and to an element of it if it has a fragment, or it is the URL of a file in the repository
that the book does not contain, or of another site. Pictures, styles and scripts are files of the directory.
"""

import pathlib
import re
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

ROOT = pathlib.Path(__file__).resolve().parents[3]
REPOSITORY = "https://github.com/osjitter/osjitter"


class Page(HTMLParser):
    """The identifiers of a page, its links, and the files that a browser loads to show it."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        # Pages in subdirectories and the page for a missing file name the directory that links start from.
        self.base = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = {name: value or "" for name, value in attributes}
        self.ids |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "base":
            self.base = attributes.get("href")
        elif tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        elif tag == "link" and attributes.get("rel") != "canonical":
            self.loaded.append(attributes.get("href", ""))
        elif "src" in attributes:
            self.loaded.append(attributes["src"])


def find_error(book, pages, file, link, is_loaded):
    """Describes what is wrong with a link of a file of the book, or returns None."""
    url = urlsplit(link)
    if url.scheme == "data" or link == "":
        return None
    if url.scheme or url.netloc:
        if is_loaded:
            return "is loaded from another site"
        inside = re.fullmatch(rf"{REPOSITORY}/(?:blob|tree|edit)/main/(.*?)(?:#.*)?", link)
        if inside and not (ROOT / inside[1]).exists():
            return "is not in the repository"
        if inside and inside[1].startswith("docs/src/") and "/edit/" not in link:
            return "is part of the book"
        return None
    start = book if pages[file].base == "/" or url.path.startswith("/") else file.parent
    target = (start / unquote(url.path).lstrip("/")).resolve() if url.path else file
    if not target.is_relative_to(book):
        return "leaves the book"
    if not target.is_file():
        return "does not exist"
    if url.fragment and target in pages and not is_loaded and unquote(url.fragment) not in pages[target].ids:
        return "has no such element"
    return None


def main():
    book = pathlib.Path(sys.argv[1]).resolve()
    pages = {file: Page(file.read_text()) for file in sorted(book.rglob("*.html"))}
    errors, links = [], 0
    for file, page in pages.items():
        for is_loaded, targets in ((False, page.links), (True, page.loaded)):
            for link in targets:
                links += 1
                error = find_error(book, pages, file, link, is_loaded)
                if error:
                    errors.append(f"{file.relative_to(book)}: {link} {error}")
    print(*errors, sep="\n", file=sys.stderr)
    print(f"{len(pages)} pages, {links} links, {len(errors)} errors")
    sys.exit(bool(errors) or links < 1000)


main()
