"""Programs of `torch.export`, and files of them, as nets."""
