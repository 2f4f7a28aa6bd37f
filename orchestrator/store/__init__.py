"""Keep each tenant's tools in Qdrant."""
