"""How the library's functions are called: ops and their Programs, names of arguments, classes that are asked."""
