"""Using what was trained: load, predict, stream, generate, export."""
