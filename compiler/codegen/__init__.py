"""Code generators: kernel IR to the text of a target's language."""
