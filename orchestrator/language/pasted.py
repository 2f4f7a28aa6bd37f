"""Forms of what people paste into a task: fenced code, stack traces, consoles, logs, another's mail, a signature.

Patterns for regular expressions with MULTILINE. A console's output ends at an empty line, or before a line that begins
like a task or a sentence.
"""

from orchestrator.language.verbs import ACTIONS, ACTIONS_OR_THINGS

_ASKS = (
    *ACTIONS,
    *ACTIONS_OR_THINGS,
    *"please can could would will what why how who when where which is are do does never no".split(),
    *"i we it this that then and the".split(),
)
_TASK = rf"(?-i:(?:{'|'.join((*_ASKS, *map(str.capitalize, _ASKS)))})\b(?!:))"
PROMPT = r"(?:[\w.-]++@[\w.-]++[^$#\n]{0,60}[$#]|\$)[^\S\n](?=[a-z./~])"
"""What a command stands behind: "$ ls", "me@host:~$ ls"; no price."""
STAMP = r"\W{0,2}(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2}[^\S\n]{1,2}\d{1,2}[^\S\n])?\d\d:\d\d:\d\d(?![\d:])"
"""What a line of a log begins with: a time to the second."""
_HEADER = r"(?:From|To|Cc|Sent|Date|Subject|Von|An|Betreff):[^\S\n].+"
_MAIL = rf"{_HEADER}(?:\n{_HEADER})++(?:\n{{1,2}}.+(?:\n.+)*)?"
"""A mail's head, two lines of it at least, and the paragraph behind it."""
_SAID = (
    r"[^\S\n]*at \S+ ?\(.*\)$"
    r"|Traceback \(most recent call last\):(?:\n[^\S\n].*)*(?:\n[\w.]+(?::.*)?$)?"
    rf"|{PROMPT}.*(?:\n(?!{_TASK}|[^\S\n]*$).+)*"
    rf"|{STAMP}.*$|{_MAIL}"
)
SAID = rf"^(?:{_SAID})"
"""What a program or a mail says: nobody's task, and half of its words' weight."""
ANNOUNCED = r"^(?i:here|this|these|the|my|our|see|below)\b[^\n:,.;!?]{0,60}:\s{1,9}"
"""The line before what is pasted that only says what that is: "Here is the log:"."""
FORMS = rf"```(?s:.*?)(?:```|\Z)|^(?:{_SAID}|>.*$|--[^\S\n]*\n(?s:.*)\Z|Sent from my .*$)"
BEGINS = rf"^(?:>|{_HEADER}|Traceback|[^\S\n]*at |--|Sent from|{PROMPT}|{STAMP})"
"""What one of these forms begins with, but for fences."""
