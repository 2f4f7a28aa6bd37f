"""What forbids an action in German, Spanish, French, Italian and Portuguese: a sentence of its own, all of which is
left out, as the verbs of these languages are not known here.

Complaints ("der Server startet nicht", "no funciona el wifi") say it with other words in front or other endings.
"""

import re
from collections.abc import Iterator

_END = r"(?=\s*(?:[.,;!\n]|\Z))"
_GERMAN = (
    r"(?:bitte\s)?(?:(?:[a-zäöüß]+e|lösch|mach|nimm|ruf|schick|schließ|schreib|send|start|stell|stopp)\s(?:bitte\s)?"
    r"(?:das|die|den|der|dem|dies\w*|mein\w*|unser\w*|alle\w*|ihn|sie|es|mir|ihm|ihr|noch|ja)\s"
    r"(?:(?!(?:das|dass|der|die|ob|wenn)\s)[^\s.,;:!?]+\s){0,8}nicht"
    rf"(?:\s(?:ab|an|auf|aus|ein|los|mehr|mit|neu|um|vor|weg|zu))?{_END}"
    r"|(?:[a-zäöüß]*(?:änder|buch|erstatt|erstell|lad|lösch|post|schick|schreib|send|start|stornier|überweis|zahl)e?)"
    r"\skeine?[nrsm]?|keine?[nrsm]?\s[^.,;:!?\n]{1,80}(?<=[a-zäöüß]{4}en)"
    rf"{_END})"
)
_SPANISH = (
    r"(?:por favor,?\s)?no\s(?!olvid|dud)(?:(?:l[aeo]s?|me|nos)\s)?[a-záéíóúñ]+[ae]s\s"
    r"(?:el|la|los|las|un|una|ese|esa|este|esta|nada|más|todavía|aún)"
)
_FRENCH = r"n(?:e\s|['’])(?:l['’]|les?\s|la\s|me\s)?(?!oubli|hésit)[a-zà-ÿ]+\s(?:encore\s)?(?:pas|rien|jamais|plus)"
_ITALIAN = r"(?:per favore,?\s)?non\s(?!dimentic|esit)[a-zà-ÿ]+(?:are|ere|ire|ar[el][ao]?)"
_PORTUGUESE = (
    r"(?:por favor,?\s)?não\s(?!abre|aparece|esque|hesit|consegue|existe|pode|recebe|responde)[a-zà-ÿ]+em?\s"
    r"(?:os?|as?|uma?|nada|ao|à|ess[ea]|est[ea])"
)
_FORBIDS = re.compile(
    r"(?i)(?:\A|[.!;\n]\s{0,9})"
    rf"(?P<said>(?:{_GERMAN}|{_SPANISH}|{_FRENCH}|{_ITALIAN}|{_PORTUGUESE})\b[^.,;:!?\n]*)(?=[.,;!\n]|\Z)"
)


def forbidden_abroad(said: str) -> Iterator[tuple[int, int]]:
    """From where to where a text forbids an action in one of these languages, in order."""
    return (found.span("said") for found in _FORBIDS.finditer(said))
