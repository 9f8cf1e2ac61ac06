"""ckcnn reproduce archive: CKCNN beside other classifiers, over many problems of the UEA and UCR archives."""
