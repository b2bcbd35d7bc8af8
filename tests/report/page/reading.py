"""A strict look at HTML: what is opened is closed, where it was opened."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

#: Elements without an end.
VOID = {"img", "meta"}
#: Elements of drawings, which may end where they begin.
DRAWN = {"path"}
#: What may stand directly in some elements; elsewhere nothing is asked.
CHILDREN = {
    "html": {"head", "body"},
    "ul": {"li"},
    "dl": {"div"},
    "table": {"thead", "tbody", "tr"},
    "thead": {"tr"},
    "tbody": {"tr"},
    "tr": {"th", "td"},
    "svg": {"path"},
}
#: Elements that hold text and such as these, but no blocks.
PHRASING = {"p", "span", "b", "small", "h1", "h2", "h3", "summary", "button", "a", "i"}
INLINE = {"span", "b", "small", "i", "a", "code"}


class Document(HTMLParser):
    """A page as it was read.

    Attributes
    ----------
    elements
        Name and attributes of every element, in their order.
    texts
        Text by the name of the element that it stands in.
    faults
        Whatever is not well-formed.
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.faults: list[str] = []
        self._open: list[str] = []
        if not text.startswith("<!DOCTYPE html>\n"):
            self.faults.append("no doctype")
        self.feed(text)
        self.close()
        self.faults += [f"{name} is never closed" for name in self._open]
        ids = Counter(own["id"] for _, own in self.elements if "id" in own)
        self.faults += [f"id {name} {n} times" for name, n in ids.items() if n > 1]
        for _, own in self.elements:
            target = own.get("aria-labelledby") or (own.get("href") or "")[1:]
            if target and target not in ids:
                self.faults.append(f"nothing has the id {target}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        inside = self._open[-1] if self._open else ""
        if tag not in CHILDREN.get(inside, {tag}):
            self.faults.append(f"{tag} in {inside}")
        if inside in PHRASING and tag not in INLINE:
            self.faults.append(f"{tag} in {inside}")
        names = [name for name, _ in attrs]
        if len({*names}) != len(names):
            self.faults.append(f"{tag} has an attribute twice")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()
        if tag not in VOID | DRAWN:
            self.faults.append(f"{tag} ends where it begins")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.faults.append(f"</{tag}> in {self._open[-1:]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", data))

    def handle_comment(self, data: str) -> None:
        self.faults.append("a comment")

    def unknown_decl(self, data: str) -> None:
        self.faults.append("a declaration")

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of every element of a name."""
        return [own for name, own in self.elements if name == tag]

    def text(self, tag: str | None = None) -> str:
        """Return all text of elements of a name, or of all but scripts and styles."""
        return " ".join(
            text
            for name, text in self.texts
            if (name == tag if tag else name not in ("script", "style"))
        )
