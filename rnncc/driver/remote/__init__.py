"""Code for other machines, run by an emulator: what is compiled is checked where it belongs."""
