"""The tools of all tenants in the store: their points, and the manifest that names them."""
