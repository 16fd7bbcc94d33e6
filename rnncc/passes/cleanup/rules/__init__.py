"""The rewrites that `canonicalize` applies, by what they are about."""
