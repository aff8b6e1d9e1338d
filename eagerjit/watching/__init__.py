"""User code watched instruction by instruction while it is recorded: what each one reads, calls and changes."""
