"""What PyTorch is made to notice, and to refuse, while it reads users' code as a graph."""
