"""English words that servers are named by. As a plain word after "with" or "from" they name no server."""

EVERYDAY = frozenset(
    """account accounts address ads agent agents ai alarm alert alerts analysis analytics app apps archive art article
    articles assistant audio auth backup bank base blog board book booking books bot box brave browser business cache
    calculator calendar camera cards cat chart charts chat chess city clock cloud code color colors company compass
    computer contact contacts content context control convert converter copy country crypto currency dashboard data
    database date dates deep desktop design developer dictionary direct directory discovery docs document documents
    doc domain download drawing drive echo edge editor education email emails energy engine event events everything
    exa excel exchange explorer fashion feed fetch file files filesystem filter finance financial find fitness flight
    flights flow focus food forecast form forms free fun game games gateway geography git gold graph graphics group
    health help hello history holiday home hotel house human hub idea image images inbox index info information insight
    jobs json knowledge language law learning library light link links list local location log logic logo logs lyrics
    mail manager map maps market math maths medical meeting memory menu message messages metrics mind mirror mobile
    model monitor moon movie movies music name names nano network news note notes notification number numbers office
    open orders order page pages paper paperwork papers password path pay payment payments pdf people phone photo
    photos picture pixel places plan planner play playground podcast poem point points poll post power prices product
    products profile project projects prompt python quotes random random reader reason recipe recipes remote report
    research resource robot rss run safe sales scholar school science screen script search security sequential shell
    shop shopping simple sky slides sms social solver song space speech sports spotlight sql stack star stock stocks
    storage store stories story stream student study style summary support system table task tasks team template
    terminal test text think thinking ticket tickets time timer timezone today todo token tools topic trade traffic
    train transcript translate translation translator travel trends trip unit units universal user users utility vault
    vector video videos view vision voice wallet watch water wave weather web website wiki wind windows word words work
    workflow workspace world write writer yoga zip zoom""".split()
)
