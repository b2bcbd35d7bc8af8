"""Splits a shell script into words, without running it.

Handles quotes, comments, lines continued with a backslash, arrays, here-documents,
redirections and the ends of commands; ``commands`` replaces variables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["word", "quoted", "array", "close", "end", "into", "document"]

#: Openings and closings of text that is kept whole even if it has spaces.
_WHOLE = (("$((", "))"), ("$(", ")"), ("${", "}"), ("$[", "]"), ("`", "`"))
_DOCUMENT = re.compile(r"<<(-?)[ \t]*(['\"\\]?)([A-Za-z_]\w*)['\"]?")
_REDIRECTION = re.compile(r"<<<|(?:[<>]|&>)+(?:&[0-9-]+)?")
_OPENS_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=")
_PLAIN = re.compile(r"[^\s\\'\"#$`<>|&;()]+")


class Token(NamedTuple):
    """A piece of a script.

    ``word`` and ``quoted`` have the text without quotes; ``array`` the name and the
    sign of an assignment whose words follow up to ``close``; ``end`` the character that
    ends a command; ``into`` says that the next word is the file that output goes to;
    ``document`` has a here-document's text.
    """

    kind: Kind
    text: str = ""


class _Lexer:
    """Reads a script from its beginning to its end, once."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        self._word: list[str] = []
        self._begun = False
        self._quoted = False
        self._array = False
        #: Here-documents announced on this line: end, and whether tabs are dropped.
        self._announced: list[tuple[str, bool]] = []

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens; ValueError if a quote or bracket is not closed."""
        while self._at < len(self._text):
            yield from self._next(self._text[self._at])
        yield from self._finished()
        yield Token("end", "\n")

    def _next(self, letter: str) -> Iterator[Token]:
        text, at = self._text, self._at
        if plain := _PLAIN.match(text, at):
            self._add(plain[0], plain.end())
        elif letter == "\\":
            if text.startswith("\n", at + 1):
                self._at += 2
            else:
                self._add(text[at + 1 : at + 2], at + 2)
        elif letter == "'":
            self._quoted = True
            end = self._closing("'", at + 1)
            self._add(text[at + 1 : end], end + 1)
        elif letter == '"':
            self._quoted = True
            self._at += 1
            self._double()
        elif letter == "#" and not self._begun:
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
        elif letter in "$`#":
            self._add_whole()
        else:
            if letter in "<>" and self._word and self._word[-1] in "12":
                # The number of a stream, not a word: 2>&1.
                self._word, self._begun = self._word[:-1], len(self._word) > 1
            yield from self._finished()
            if self._at == at:
                yield from self._operator(letter)

    def _operator(self, letter: str) -> Iterator[Token]:
        """Yield the tokens of a character between words."""
        text, at = self._text, self._at
        if announced := _DOCUMENT.match(text, at):
            self._announced.append((announced[3], bool(announced[1])))
            self._at = announced.end()
        elif (found := _REDIRECTION.match(text, at)) and letter != "|":
            self._at = found.end()
            if ">" in found[0] and "&" not in found[0]:
                yield Token("into")
        elif letter == ")" and self._array:
            self._array = False
            self._at += 1
            yield Token("close")
        else:
            self._at += 1
            if letter in "\n;|&()" and not self._array:
                yield Token("end", letter)
            if letter == "\n":
                yield from self._documents()

    def _add(self, text: str, at: int) -> None:
        self._word.append(text)
        self._begun = True
        self._at = at

    def _add_whole(self) -> None:
        """Add a substitution with everything in it, or a single letter."""
        for opens, closes in _WHOLE:
            if self._text.startswith(opens, self._at):
                end = self._matching(opens, closes)
                whole = self._text[self._at : end]
                # A command's output is unknown: keep it one word, without spaces.
                self._add(whole if opens == "${" else "".join(whole.split()), end)
                return
        self._add(self._text[self._at], self._at + 1)

    def _matching(self, opens: str, closes: str) -> int:
        """Return where a substitution ends, past those nested in it."""
        begin = self._at + len(opens)
        if opens in ("$((", "$[", "`"):
            return self._closing(closes, begin) + len(closes)
        depth, at = 1, begin
        bracket = opens[-1]
        while depth:
            if at >= len(self._text):
                msg = f"no closing {closes}"
                raise ValueError(msg)
            letter = self._text[at]
            depth += (letter == bracket) - (letter == closes)
            at += 1
        return at

    def _closing(self, closes: str, begin: int) -> int:
        end = self._text.find(closes, begin)
        if end < 0:
            msg = f"no closing {closes}"
            raise ValueError(msg)
        return end

    def _double(self) -> None:
        """Add what is between double quotes."""
        while self._at < len(self._text):
            letter = self._text[self._at]
            if letter == '"':
                self._at += 1
                self._begun = True
                return
            if letter == "\\":
                after = self._text[self._at + 1 : self._at + 2]
                kept = (
                    after if after in '"\\`' else "" if after == "\n" else f"\\{after}"
                )
                self._add(kept, self._at + 2)
            elif letter in "$`":
                self._add_whole()
            else:
                self._add(letter, self._at + 1)
        msg = 'no closing "'
        raise ValueError(msg)

    def _finished(self) -> Iterator[Token]:
        """Yield the word so far, or the array that it opens."""
        if not self._begun:
            return
        word = "".join(self._word)
        quoted = self._quoted
        self._word, self._begun, self._quoted = [], False, False
        opens = self._text.startswith("(", self._at) and _OPENS_ARRAY.fullmatch(word)
        if opens and not quoted and not self._array:
            self._array = True
            self._at += 1
            yield Token("array", word)
        else:
            yield Token("quoted" if quoted else "word", word)

    def _documents(self) -> Iterator[Token]:
        """Yield the here-documents that the line before announced."""
        for end, drops_tabs in self._announced:
            lines = []
            while self._at < len(self._text):
                stop = self._text.find("\n", self._at)
                stop = len(self._text) if stop < 0 else stop
                line = self._text[self._at : stop]
                self._at = stop + 1
                if drops_tabs:
                    line = line.lstrip("\t")
                if line.rstrip() == end:
                    break
                lines.append(line)
            yield Token("document", "\n".join(lines))
        self._announced = []


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a script.

    Raises
    ------
    ValueError
        A quote or bracket is not closed.
    """
    return _Lexer(text).tokens()
