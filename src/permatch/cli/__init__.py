"""The command line: thin commands that read, call the library and print."""
