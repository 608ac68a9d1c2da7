"""The commands: options in, files and a table out."""
