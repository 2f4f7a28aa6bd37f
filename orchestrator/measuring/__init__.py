"""How well a catalogue is searched, by labelled queries or by such as its tools' own texts make; maps fitted to it."""
