"""The inside of the Store: Qdrant, its points, the ledger of who has which tools, the shelf of vectors."""
