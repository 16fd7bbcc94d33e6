"""What modules and cells hold in Python's objects: found, compared between calls, put back."""
