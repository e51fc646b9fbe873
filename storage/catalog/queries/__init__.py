"""What the repositories share within a transaction.

`project_lookup` finds projects, `named_rows` pages of named rows, `counters` keeps totals,
`casefold` and `digest` prepare texts and secrets for lookups, `text_search` searches titles and
names, `visibility` reads what viewers may see, `insert_missing` adds rows that may exist,
`living_hosts` determines which hosts live, `row_reader` makes records of rows, `due` counts rows
whose time is over, `removals` are objects that are to be deleted, and `alerts` are queued for those
who want mail of them. `trash_rows` are what was deleted and can be restored, with `snapshots` of
its rows.
"""
