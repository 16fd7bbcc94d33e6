"""How blocks hand rows on to each other without a wait of all."""
