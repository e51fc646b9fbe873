"""What several endpoints share about bodies: shapes, texts, timestamps and addresses.

`common` has the bodies of streams, lists and labels, `presenter` builds them from records.
`text_fields` validates titles and descriptions, `filenames` makes titles and slugs of the names of
files, `timestamps` formats times, `urls` builds every public address, `embed_snippets` the HTML
that embeds a player. Bodies of one noun are with it.
"""
