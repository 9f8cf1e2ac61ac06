"""Everything that exists only for the weights that the paper's authors published."""
