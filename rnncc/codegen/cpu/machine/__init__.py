"""What is known of the CPUs that code is for: vectors, caches, features, measured rates."""
