"""The one HTTP stack: what guards every request before a route sees it, and how a server starts and ends."""
