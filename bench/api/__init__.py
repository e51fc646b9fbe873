"""What a page of a long list costs, beside the same questions to the database by hand."""
