"""What imports torch, builds environments or takes minutes: it runs in processes of its own, never in the server."""
