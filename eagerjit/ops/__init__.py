"""The public operations, by family. Importing this package declares them all."""
