"""From an object file in memory to the files that people use: library, header, wrapper."""
