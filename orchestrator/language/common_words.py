"""Common words by which servers are named, too: a mention of one need not mean the server."""

EVERYDAY = frozenset(
    """account accounts add address adjust ads africa agent agents ai aim air alarm alert alerts algorithms amber
    america analysis analytics anchor animal animation app apple apps april arabic archive arrow art article
    articles asia assistant astronomy atlas attack audio august aurora auth aviation backup ballet bank base
    baseball basketball beacon bear bee bets biology bird blog bloom board book booking books bored bot box boxing
    brave bridge bright browser business butterfly cache calculator calendar camera canvas canyon captcha cards
    castle cat catalog catering cedar channel channels chart charts chat chemistry chess china chinese city clarity
    clay clear clock cloud cloudy cocktails code coin color colorful colors comet command commands commodities
    company compass computer contact contacts content context continue control convert converter cook copy coral
    country crane cricket crypto crystal currency customer customers cybersecurity cycling danish dashboard data
    database date dates dawn day days december deep delete demo desert design desktop developer diamond dictionary
    diff direct directory discovery doc docs document documents dog dogs dolphin domain download dragon drawing
    drive dutch eagle ear earth echo economics edge edit editing editor education elephant email emails ember energy
    engine english ethics europe event events everything exa excel exchange execute explorer falcon fashion february
    feed fetch file files filesystem film films filter finance financial find fire fish fitness flame flight flights
    flow flower focus food football forecast forest form forms fox france free french friday frog fruit fun funds
    galaxy game games gaming garden gateway gem genetics geography geology german germany ghost git glass gold graph
    graphics green grid group guide harbor hashtag hawk health hello help hex hindi history hockey holiday home
    honey horizon hotel house hub human ice idea image images inbox index india info information insight installer
    insurance intent interactive internet investing iron island italian italy ivy jade january japan japanese jobs
    jokes journalism json july june jungle keep key kitchen knowledge korean lake language languages law leaf
    learning ledger library light linguistics link links lion list local location log logic logo logs london lotus
    lyrics machine mail manager mango map maple maps marble march market marketing mars math mathematics maths
    medical medicine meeting meme memes memory menu mercury message messages metrics mind mint mirror mobile model
    monday monitor month moon moss mountain movie movies music name names nano nest network networks news north
    norwegian note notes notification november number numbers nursing oak ocean october office olive onyx open
    optimization orange orbit order orders outline owl page pages painting panda paper papers paperwork paris
    password path patient patients pay payment payments pdf peach pearl penguin people perspective pharmacy
    philosophy phoenix phone photo photography photos physics picture pine pixel places plan plane planet planner
    play playground pocket podcast poem poetry point points polish poll portuguese post power predict price prices
    prism private product products profile project projects prompt psychology publicity pulse pump python quartz
    quotes rabbit railway rain ramp random raven reader reason recipe recipes red reference religion remote report
    research resource restart river robot robotics rock rocket romance rose rss ruby run russian safe sales saturday
    saturn scholar school science screen screenshot script sculpture sea search security seed september sequential
    server set shadow shark shell shop shopping signal silver simple skincare sky sleep slides sms snow soccer
    social solar solver song south space spain spanish spark speech spider sports spotlight spreadsheet spreadsheets
    spring sql square stack star statistics steel stock stocks stone storage store stories storm story storytelling
    stream student study style subway summary summer sun sunday support swan swedish swift swimming syntax system
    table target task tasks team teams television template tennis terminal test text thing things think thinking
    thunder thursday ticket tickets tiger time timer timezone today todo together token tools topic tower trade
    traffic train transcript translate translation translator travel tree trends trip tuesday turkish turtle twist
    typography unit units unity universal user users utility validation vault vector vehicle vehicles venus video
    videos view vision voice volatility wait wallet watch water wave weather web webhook website wednesday week
    weightlifting whale wiki wind windows winter wire wolf word words work workflow workspace world write writer
    year yoga zebra zen zero zip zodiac zoom""".split()
)
"""As a plain word after "with" or "from" they name no server."""
