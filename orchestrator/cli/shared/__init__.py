"""Options, output and sources that all commands share."""
