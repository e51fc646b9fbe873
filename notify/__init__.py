"""Operators told by mail of what needs them, whether or not they look.

The catalog has what is to be told, to whom, and which mail is due (`storage.catalog.alerts`).
`words` describes it for people, `message` makes the mail, both pure; `smtp` hands it to the mail
server; `mailer` does so for whatever is due, and sends the mails that are to try it out.

It is no part of what serves viewers: it is imported only where a mail server is set, and nothing
waits for it.
"""
