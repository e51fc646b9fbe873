"""The console: pages for people, from which they go live, upload and operate the service.

Pages show what the catalog and the presenters of the API return; every change is a request of a
page's script to the API. `routes` lists the pages and adds what they share.
`rendering` fills templates, `page` answers with a page or a fragment of it, `errors` with the page
of an error. `access` admits browsers, `sign_in` signs them in and out. Each further module is a
page or a family of pages. The scripts and styles are in `web/src/console`.
"""
