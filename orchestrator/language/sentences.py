"""Where a dot ends no sentence: "vom 3. bis 7. Juli", "Dr. Berg", "order no. 12", "Acme Ltd. in Berlin"."""

_MONTH = (
    "(?:januar|j[äa]nner|februar|m[äa]rz|mar(?:ts|ch)|april|ma[ij]|jun[eiy]?|jul[iy]?|august|september"
    "|o[kc]tober|november|de[zc]ember|jan|feb|apr|aug|sept?|okt|nov|de[zc])"
)
_BESIDE_DAYS = "(?-i:ab|bis|des|klo?|oder|og|och|um|und)"
"""Small words behind the day of a date; written large they begin a sentence."""


def _behind(*words: str) -> str:
    """A pattern for the place behind one of these, its dot and a blank."""
    places = (rf"(?<=\b{word}\.\s)" for word in words)
    return f"(?:{'|'.join(places)})"


_DAY = _behind("[1-9]", "0[1-9]", "[12][0-9]", "3[01]")
_TITLE = _behind("Dr", "Mr", "Ms", "Mrs", "Prof", "St", "v", "vs")
_COUNTING = _behind("approx", "ca", "ch", "fig", "kl", "no", "nr", "p", "pp", "sec", "ver", "vol")
_SHORT = _behind(r"a\.m", r"p\.m", "approx", "Ave", "ca", "Co", "Corp", "etc", "Inc", "Ltd", "oz")
_EXAMPLE = _behind(r"e\.g", r"i\.e")
NO_END = (
    rf"(?i:{_DAY}(?:{_MONTH}|{_BESIDE_DAYS})\b|{_EXAMPLE}|{_COUNTING}(?=\d)"
    rf"|(?-i:{_TITLE}(?=[A-Z]))|{_SHORT}(?=(?-i:[a-z])))"
)
"""Right behind a dot and a blank that end no sentence."""
