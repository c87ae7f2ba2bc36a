"""Work that imports torch, builds environments or takes minutes: in processes of its own, never in the server."""
