"""One module for each kind of input: `recipes` draws cases as plain data, `arrange` writes one into a folder."""
