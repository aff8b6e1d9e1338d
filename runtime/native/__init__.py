"""The native runtime, written in a small typed subset of Python (see `language`) and compiled by LLVM."""
