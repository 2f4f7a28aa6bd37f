"""Verbs that a task begins with."""

ACTIONS = frozenset(
    """access acknowledge activate add adjust allocate analyse analyze announce append apply approve archive arrange
    ask assess assign attach begin block build buy calculate cancel categorize choose classify clean clear clone
    close collect combine compare compile compose compute conduct configure confirm connect convert correct crawl
    create crop deactivate decline decode decrypt deduct define delete deploy describe detect determine diagnose
    disable dispatch display download duplicate edit enable encode encrypt enrich enroll ensure estimate evaluate
    execute explain extend extract fetch fill finalize find finish fix follow format forward gather generate geocode
    get give grant hide identify inform ingest initiate insert inspect install invite invoke join keep learn let
    lint locate look lookup make mark measure merge migrate modify move mute navigate normalize notify obtain
    offboard onboard open optimize organize pause pay perform pick postpone predict prepare prescribe produce
    provide publish purchase purge put reactivate read reassign rebuild recommend reconcile recover redeem reduce
    refresh regenerate register reinstate reject remember remind remove rename renew reopen rephrase replace reply
    reschedule reserve reset resize resolve restart restore resume retrieve revert revoke rewrite rotate save scrape
    see select sell send set show simulate solve split submit subscribe suggest summarise summarize suspend swap
    sync take tell terminate toggle transcribe translate turn unassign unfollow unlock unmute unpin unpublish
    unsubscribe upload upscale use validate verify visualize wait warn wipe withdraw write""".split()
)
"""Verbs that a task begins with and that are hardly ever the name of a thing."""

ACTIONS_OR_THINGS = frozenset(
    """alert answer audit back backup balance bill book bookmark branch broadcast call capture change charge chart chat
    check claim click comment commit compress contact copy count cut debug delay deposit design dial document draft
    draw drive drop dump email escalate exchange export fax file filter flag fly fork graph group guess head
    highlight host import invoice label launch lease like link list load lock log lower mail map match message
    monitor name note order outline park parse patch photograph pin ping place plan play plot poll post press
    preview price print process profile program promote pull push query quote raise rank rate record refund render
    rent report request research return review ring roll route run sample scale scan schedule score screenshot
    search share ship shop sign sketch sort spell stage star start stop store stream study switch tag test text time
    track trade train transfer transform trash travel trigger trim tweet type update upgrade view visit void vote
    watch water weigh work zip""".split()
)
"""Words that begin a task when an object follows ("order the parts", but not "order history"), or among other tasks."""


def may_act(word: str) -> bool:
    """Whether a task may begin with this word, in lower case."""
    return word in ACTIONS or word in ACTIONS_OR_THINGS
