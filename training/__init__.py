"""How the shipped static embedder is made; nothing here is imported at run time."""
