"""The records of a project other than streams and videos, and the lists to choose from.

`projects`, `tokens`, `labels` (tags and categories), `players`, `events` and `trash` hold the
controllers of a noun, with its bodies, `alert_mail` who gets mail of a project or of the
installation; `countries` and `resolutions` are constant lists. `lookup` finds the project of a path
for all of `api`, and `references` reads the tags, countries and resolutions that bodies of streams
and videos name. `quotas` refuses what exceeds a project's quotas.

Guards are set on each handler, never on a controller: Litestar would apply those to OPTIONS, too.
Handlers' docstrings are descriptions in the OpenAPI document. Read `lookup` first, then `players`.
"""
