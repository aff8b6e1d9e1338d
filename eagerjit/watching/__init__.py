"""What user code reads and does while it is recorded: guards, and effects that compiled calls repeat."""
