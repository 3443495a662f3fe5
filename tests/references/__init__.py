"""Paper-style loops, one client at a time, that the presets must equal."""
