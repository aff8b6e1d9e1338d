"""Compiled calls: made, kept on disk, put on the tape, explained, verified."""
