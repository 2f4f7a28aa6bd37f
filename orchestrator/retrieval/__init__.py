"""A catalogue made ready to be searched, kept by tenant, and searched by both legs."""
