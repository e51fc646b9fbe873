"""The console: pages for people, from which they go live, upload and operate the service.

Pages show what the catalog and the presenters of the API return; every change is a request of a
page's script to the API. `routes` lists the pages and adds what they share. `rendering` fills
templates, `page` answers with a page or a fragment of it, `errors` with the page of an error.
`access` admits browsers, `sign_in` signs them in and out. The pages are `overview`, `streams`,
`stream_room`, `upload`, `videos`, `video`, `trash`, `settings` and `operations`. `stream_states`
and `event_words` say in words what streams do, `label_choice` which labels a form offers. The
scripts and styles are in `web/src/console`.
"""
