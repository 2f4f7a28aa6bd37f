"""Shapes: what a word's form says and its letters do not. "Tell #eng it is done" speaks of a message to a channel."""

import re

_CHANNEL = re.compile(
    r"(?i)\b(?:in|to|from|for|tell|ask|let|ping|notify|inform|alert|warn|remind|message|join|dans|en|nel|na|no|в)\s"
    r"#(?!(?:[\da-f]{3}){1,2}\b)(?-i:[a-z])[\w-]{1,40}+(?!/|\.\w)"
)
"""Behind a word that leads to people: elsewhere that mark makes hashtags, colours and the parts of a page."""
_URL = re.compile(r"(?i)\bhttps?://[^\s<>\"'`“”’)\]]+")
_URL_AND_WORD = re.compile(_URL.pattern + "(?: url)?")
_SAID = ((_URL, "://", "url"), (_CHANNEL, "#", "channel message"))
"""Each shape, a sign that none is without, and the words that tools have for it. Paths were tried: as many queries
lost by "file" as gained, since what is done with a file is seldom a file tool's."""


def with_shapes(text: str) -> str:
    """The text with the words for each shape behind it: "read https://acme.io/x url"."""
    for shape, sign, words in _SAID:
        if sign in text:
            text = shape.sub(rf"\g<0> {words}", text)
    return text


def without_urls(text: str) -> str:
    """A text `with_shapes` without its URLs and their word: they name where a page stands, and seldom what is to be
    done with it, which may be to send it on."""
    return _URL_AND_WORD.sub(" ", text) if "://" in text else text
