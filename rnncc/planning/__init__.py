"""Memory: when buffers live, where they lie, and the report that says so."""
