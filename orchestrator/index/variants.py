"""Variants: words that people use for one another and the stemmer keeps apart, in tools and queries alike.

What a word stands for is its term, and an acronym of several words has theirs too. Left out is what means something
else in a tool, in a name or in another language ("app", "temp", "dir", "os").
"""

import re
from collections.abc import Mapping


def _table(text: str) -> dict[str, str]:
    entries = (" ".join(entry.split()).partition(" ") for entry in text.split(","))
    return {word: meaning for word, _, meaning in entries}


_SAME = _table(
    """acct account, addr address, admin administrator, appt appointment, attr attribute, auth authentication,
    avg average, bday birthday, calc calculate, cert certificate, cfg configuration, cmd command, config configuration,
    ctx context, db database, deps dependencies, dept department, desc description, dest destination, doc document,
    docs documentation, dupe duplicate, env environment, exam examination, exec execute, expr expression, fav favorite,
    fb facebook, freq frequency, func function, gh github, hrs hours, img image, info information,
    infra infrastructure, intro introduction, k8s kubernetes, lat latitude, lng longitude, lon longitude,
    math mathematics, max maximum, mgmt management, mgr manager, mic microphone, mins minutes, msg message,
    mtg meeting, notif notification, obj object, org organization, param parameter, pct percent, perf performance,
    perm permission, pic picture, pkg package, ppl people, proj project, promo promotion, pwd password, qty quantity,
    repo repository, sched schedule, spec specification, src source, srv server, stat statistic, svc service,
    sync synchronize, sys system, tix tickets, tmp temporary, tmrw tomorrow, txn transaction, txt text, usr user,
    vars variables, vid video, yr year, yt youtube,
    arrival arrive, catalogue catalog, centre center, cheque check, conversion convert, creation create,
    departure depart, diagnosis diagnose, enquiry inquiry, explanation explain, grey gray, licence license, litre liter,
    metre meter, payment pay, programme program, removal remove, subscription subscribe, summary summarize,
    summaries summarize, synthesis synthesize, theatre theater, transcript transcribe, transcription transcribe,
    analysis analyze, analytics analyze"""
)
"""Shorthand, other spellings, and nouns that the stemmer does not trace to their verb."""
_ISE = "analy authori categori customi initiali minimi normali optimi organi prioriti recogni summari synchroni visuali"
_SAME |= {f"{verb}s{end}": f"{verb}z{end}" for verb in _ISE.split() for end in "e es ed er ing ation".split()}
_SAME |= {f"{verb}l{end}": f"{verb}{end}" for verb in ("cancel", "label", "travel") for end in ("ed", "ing")}
_SAME |= {f"{noun}our": f"{noun}or" for noun in "behavi col fav flav harb lab neighb".split()}
_SAME |= {"favourite": "favorite"}

_ACRONYMS = _table(
    """2fa two factor authentication, btc bitcoin, cli command line, dm direct message, eta arrival time,
    eth ethereum, eur euro, faq asked questions, gcal google calendar, gdoc google document, gdrive google drive,
    llm language model, mfa multi factor authentication, nyc new york, ocr text recognition, ooo out of office,
    otp one time password, pr pull request, pto time off, regex regular expression, sms text message,
    sso single sign on, stt speech to text, tts text to speech, ui user interface, usd dollar, vm virtual machine"""
)
_ACRONYM = re.compile(rf"(?<![\w@./-])(?:{'|'.join(_ACRONYMS)})s?(?![\w@/-]|\.\w)", re.IGNORECASE)
"""One that stands alone: no part of a name, a path or an address."""


def one_for(word: str) -> str:
    """Return the word in lower case that this one stands for, which may be itself."""
    return _of(_SAME, word) or word


def words_of(word: str) -> list[str]:
    """Return the words that an acronym in lower case stands for."""
    return _of(_ACRONYMS, word).split()


def spelt_out(text: str) -> str:
    """Return the text with the words of each acronym behind it."""
    return _ACRONYM.sub(lambda found: f"{found[0]} {_of(_ACRONYMS, found[0].lower())}", text)


def _of(table: Mapping[str, str], word: str) -> str:
    """Look a word up, or the one that it is the plural of."""
    return table.get(word) or table.get(word.removesuffix("s"), "")
