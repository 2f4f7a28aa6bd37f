"""People: whom a task has told something or asked to do something, as regular expressions that ignore case; and the
verbs that do."""

_LITTLE = (
    r"about|and|as|at|because|by|for|from|how|if|in|now|of|on|or|since|so|that|then|there|to|today|what|when|whether|which"
    r"|who|why|with"
)
_DEVICE = (
    r"(?:agent|api|app|assistant|bot|browser|build|chatbot|cluster|engine|file|job|lamp|light|machine|model|phone|printer"
    r"|robot|script|server|service|system|tool|tv|workflow)s?"
)
_NOUN = rf"(?!(?:{_LITTLE}|{_DEVICE})\b)[a-z]+"
_GROUP = r"(?:accounting|engineering|finance|hr|legal|marketing|ops|payroll|procurement|sales|security|support)"
_ROLE = (
    r"(?:accountant|admin|boss|brother|client|colleague|customer|dad|department|designer|developer|doctor|engineer|friend"
    r"|guy|husband|intern|landlord|lawyer|manager|mom|mum|neighbou?r|on-?call|sister|supplier|team|tenant|vendor|wife)s?"
)
SOMEBODY = (
    rf"(?:him|her|them|everybody|everyone|somebody|someone|[#@][\w.-]*\w|[\w.+-]+@[\w.-]*\w|{_GROUP}"
    rf"|(?:the|my|our)\s(?:[a-z]+\s)?{_ROLE})"
)
PEOPLE = rf"(?:{SOMEBODY}|(?:the|my|our|his|her|their)\s{_NOUN}(?:\s{_NOUN})?)"
"""Who may be told something; "me" and "us" ask for it themselves."""
NAME = r"(?-i:(?!I\b)[A-Z][\w'’-]+(?:\s[A-Z][\w'’-]+)?(?<!['’]s))"

INFORMING = tuple("alert inform message notify page ping tell warn".split())
"""Somebody is told something; "page" and "alert" begin what is no order, too."""
MAILING = tuple("dm email e-mail fax mail sms text".split())
"""So is somebody here, by what they send."""


def one_of(*verbs: str) -> str:
    """A pattern for one of these."""
    return f"(?:{'|'.join(verbs)})"
