"""The cost of a page of a long list, compared with the same queries written by hand."""
