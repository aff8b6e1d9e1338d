"""What recorded code read of its surroundings, and how compiled calls see whether it is as it was."""
