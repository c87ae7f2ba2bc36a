"""HTTP servers: the API with the dashboard, and a single policy."""
