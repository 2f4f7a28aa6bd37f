"""How people write a task. Each module answers one question of a text, or of a tool's name; none knows a catalogue.

What is a task in it, and what is not
    clauses       its parts that ask for something        "list invoices | and email him"
    lists         marks of a list                         "1) ... 2) ..."
    sentences     dots that end nothing                   "Dr. Berg", "order no. 12"
    pleasantries  greetings and thanks                    "good morning", "thanks!"
    quoted        what it cites or pastes                 "translate 'cancel it'"
    pasted        how pasted text looks                   logs, code, mails
    handed        what its first line hands over          "post this in #general: ..."
What is not to be done
    negation      what it forbids                         "don't delete anything"
    without       what it does without                    "no web search"
    abroad        what it forbids in other languages      "nicht löschen"
    corrections   what it takes back                      "order 12, no wait, 13"
    asides        what it waits for, or has told          "once 88 is merged, ..."
    reports       what somebody is told or asked          "tell Ana we shipped it"
    refused       what is to stay undone                  "refuse to merge it"
    mentioned     what is named and not asked for         "the refund failed"
    statements    what tells how things are, or wishes    "the api is stuck"
    told          deeds that it only tells of             "order 12 was cancelled"
What is meant by its words
    wanted        to be told something, or a change       "is it merged?"
    modes         the same of tools and verbs             get_order, cancel_order
    opposites     what undoes what                        "turn off", "resume"
    outdated      tools that are to be used no longer     "[DEPRECATED] ..."
    taking_away   whether something goes                  "revoke", delete_user
    identified    identifiers that it gives               "order 4711"
    sending       messages that say no "send"             "text him"
    people        who is told                             "the team", "#ops"
    shapes        what a form says                        "#eng", a URL
    slips         misspelt words                          "refnd"
    spelling      names at one slip                       "jiira"
    wording       how words stand around a name           "use X to"
Words
    words         the words of a text, and its first      "please merge it": merge
    verbs         what a task may begin with              create, order
    common_words  names that are words, too               memory, time
"""
