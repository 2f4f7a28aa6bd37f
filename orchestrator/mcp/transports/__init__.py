"""How a server is reached: a child process over stdio, or a URL over HTTP or SSE."""
