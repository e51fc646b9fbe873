"""Checks the fetches of a live presentation against the standard.

Source: draft-pantos-hls-rfc8216bis. It shares no code with `media.hls`. Time is an argument, so
that it can check hand-made sequences as well as real servers.
"""

from urllib.parse import parse_qsl, urlsplit

from tests.support.hls.delivery_rules import (
    Compression,
    FarRequests,
    check_blocking,
    check_headers,
    check_skip,
    is_late_answer,
)
from tests.support.hls.fetches import Fetch, address_of, directives_of, joined
from tests.support.hls.findings import Findings
from tests.support.hls.playlist_rules import check_playlist
from tests.support.hls.presentation_rules import CheckedRendition, Presentation
from tests.support.hls.rendition_history import merge_delta
from tests.support.hls.strict_m3u8 import MediaText, MultivariantText, read_playlist

_TARGET = 6  # seconds, before the first media playlist


class LiveChecker:
    """Checks all fetches of one stream, which must be fed in the order in which they ended.

    `url` is the multivariant playlist. Low-latency tags are required (`low=True`), forbidden
    (False) or optional (None). `findings` are plain sentences.
    """

    def __init__(self, url: str, *, low: bool | None = None) -> None:
        self.url = url
        self.presentations: list[Presentation] = []
        self.fetches = 0
        self.merged = 0  # applied delta updates
        self._low = low
        self._findings = Findings()
        self._far: dict[str, FarRequests] = {}
        self._refused: dict[
            str, tuple[CheckedRendition, int]
        ] = {}  # hinted, and answered otherwise
        self._compression = Compression(self._findings.about("compression"))

    @property
    def findings(self) -> list[str]:
        """The distinct findings so far."""
        return self._findings.sentences

    @property
    def renditions(self) -> dict[str, CheckedRendition]:
        """All renditions of all runs, by the address of their playlist."""
        return {
            url: each
            for presentation in self.presentations
            for url, each in presentation.renditions.items()
        }

    def feed(self, fetch: Fetch) -> None:
        """Add a fetch."""
        self.fetches += 1
        url = address_of(fetch.url)
        if url == self.url:
            self._multivariant(fetch)
        elif url in self.renditions:
            self._media_playlist(fetch, self.renditions[url])
        else:
            self._resource(fetch, url)

    def interrupt(self) -> None:
        """Record a restart of the server: media that were only in its memory may be lost."""
        for presentation in self.presentations:
            presentation.interrupt()

    def finish(self) -> list[str]:
        """Return the findings, including those about the whole presentation."""
        for url, (rendition, status) in self._refused.items():
            if url in rendition.history.resources:
                rendition.report(
                    f"the hinted {_name(url)} was answered {status}, and came", "6.2.6"
                )
        for rendition in self.renditions.values():
            history = rendition.history
            for url in rendition.media.early:
                if url in history.withdrawn:
                    rendition.report(f"{_name(url)} was delivered and never listed", "6.2.6")
        return self.findings

    def _text(self, fetch: Fetch, target: int, name: str) -> MediaText | MultivariantText | None:
        report = self._findings.about(name)
        if fetch.status != 404 or self.presentations:
            check_headers(fetch, "playlist", target, report)
        if fetch.status != 200:
            return None
        content = fetch.content
        if content is None:
            report("the compressed answer cannot be read", "6.2.1")
            return None
        self._compression.take(fetch, content)
        return read_playlist(content, report)

    # -- the multivariant playlist --------------------------------------------------------------

    def _multivariant(self, fetch: Fetch) -> None:
        text = self._text(fetch, _TARGET, "multivariant")
        report = self._findings.about("multivariant")
        if fetch.status != 200 and self.presentations:
            report(f"it was answered {fetch.status} after it had been there", "6.2.1")
        if isinstance(text, MediaText):
            report("there is a media playlist at its address", "4.4")
        if not isinstance(text, MultivariantText):
            return
        named = {joined(fetch.url, uri) for uri in text.uris}
        if not self.presentations or not named & set(self.presentations[-1].renditions):
            self.presentations.append(Presentation(self.url, report))
        presentation = self.presentations[-1]
        presentation.named = named
        query = dict(parse_qsl(urlsplit(self.url).query)).items()
        for url in sorted(named):
            if not query <= dict(parse_qsl(urlsplit(url).query)).items():
                report(f"{_name(url)} does not carry the query on", "decided for latency=normal")
            if url not in presentation.renditions:
                rendition = CheckedRendition(url, self._findings.about(_name(url)))
                presentation.renditions[url] = rendition
                self._far[url] = FarRequests(rendition.report)
        presentation.check_variants(text)

    # -- media playlists ------------------------------------------------------------------------

    def _media_playlist(self, fetch: Fetch, rendition: CheckedRendition) -> None:
        history, report = rendition.history, rendition.report
        target = history.last.target if history.last else _TARGET
        text = self._text(fetch, target, _name(history.url))
        if isinstance(text, MultivariantText):
            report("there is a multivariant playlist at its address", "4.4")
        full = self._complete(fetch, text, rendition) if isinstance(text, MediaText) else None
        newest = rendition.newest_at(fetch.began)
        if full is not None:
            check_playlist(full, low=self._low, report=report)
            history.update(full, fetch.ended)
            rendition.saw(full, fetch.ended)
            rendition.media.listed()
            presentation = self._presentation_of(rendition)
            presentation.check_update(rendition, full, fetch.began, fetch.ended)
            self._far[history.url].judge(fetch.began, full.last[0])
        elif fetch.status != 200 and directives_of(fetch.url) == directives_of(history.url):
            report(f"it was answered {fetch.status}", "6.2.1")
        check_blocking(fetch, full, history, report)
        self._far[history.url].take(fetch, history, newest)

    def _complete(
        self, fetch: Fetch, text: MediaText, rendition: CheckedRendition
    ) -> MediaText | None:
        """Return the complete playlist, or None if a delta update cannot be applied."""
        check_skip(fetch, text, rendition.report)
        if not text.skipped:
            return text
        full = merge_delta(text, rendition.history.last)
        self.merged += full is not None
        return full

    # -- media ----------------------------------------------------------------------------------

    def _resource(self, fetch: Fetch, url: str) -> None:
        rendition = self._rendition_of(url)
        if rendition is None:
            return
        history, report = rendition.history, rendition.report
        resource = history.resources.get(url)
        check_headers(fetch, "media", history.last.target if history.last else _TARGET, report)
        if fetch.status == 200:
            rendition.media.take(url, fetch.body)
            if resource is not None:
                self._presentation_of(rendition).check_starts([resource.msn])
            return
        if resource is not None and history.is_due(resource, fetch.ended, began=fetch.began):
            report(f"{_name(url)} is listed and was answered {fetch.status}", "6.2.1")
        elif resource is not None and resource.kind == "init":
            report(f"{_name(url)} was answered {fetch.status}", "6.2.1")
        elif url in history.hints and not is_late_answer(fetch, history):
            self._refused[url] = (rendition, fetch.status)

    def _presentation_of(self, rendition: CheckedRendition) -> Presentation:
        return next(
            presentation
            for presentation in self.presentations
            if rendition in presentation.renditions.values()
        )

    def _rendition_of(self, url: str) -> CheckedRendition | None:
        """Return the rendition that lists or hints a resource."""
        for rendition in self.renditions.values():
            if url in rendition.history.resources or url in rendition.history.hints:
                return rendition
        return None


def _name(url: str) -> str:
    return "/".join(url.split("?")[0].split("/")[-2:])
