"""Names of the namespace itself that are neither tensors nor operations on them."""
