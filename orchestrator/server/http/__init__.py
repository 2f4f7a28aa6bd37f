"""`toolroute serve` over HTTP: the ASGI app, its tokens, and the limits that keep it answering."""
