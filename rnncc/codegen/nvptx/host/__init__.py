"""What a library for a GPU does on the host: its exported functions, the driver, the images."""
