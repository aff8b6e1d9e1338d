"""What recorded code does to Python objects and asks of the world: compiled calls do and ask the same."""
