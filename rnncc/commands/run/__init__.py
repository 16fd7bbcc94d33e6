"""`rnncc run`: arrays and tables from files, and back."""
