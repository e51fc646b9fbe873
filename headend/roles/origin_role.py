"""The origin role: playlists and media, watch pages and their documents.

All parts share one visibility check, so that no URL serves what a page hides.
"""

from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from api.http.access_log import AccessLog
from api.http.application import Application, AsgiCall
from api.http.auth import is_owner, is_signed_in_owner
from api.http.browser_sessions import BrowserSessions
from api.http.client_address import TrustedProxies
from api.http.response import PageHandlers
from api.http.static_files import BUNDLE, Asset
from api.origin.absences import Absences
from api.origin.geo import CountryResolver
from api.origin.origin import Origin, OriginFirst
from api.origin.redirects import CdnRedirects, Redirects, SignedRedirects
from api.origin.visibility import VisibilityCache
from api.pages.json_documents import document_handlers
from api.pages.oembed import oembed_handlers
from api.pages.slate_images import SlateLookups, slate_image_handlers
from api.pages.watch_pages import page_handlers
from api.schemas.urls import Addresses
from delivery.edge.base import EdgeReader
from headend.config.settings import ServiceSettings
from headend.install.media_store import bucket_of, signing_bucket
from storage.catalog import Catalog
from storage.objects.cdn_copies import copy_for_cdn
from storage.objects.store import MediaStore

_CARD = "card.jpg"


class OriginRole(msgspec.Struct, frozen=True, kw_only=True):
    """The handlers of the origin role.

    `geo.keep_fresh` and `visibility.run_queries` must run in the background.
    """

    clients: TrustedProxies
    geo: CountryResolver
    visibility: VisibilityCache
    origin: Origin
    handlers: PageHandlers

    def wrap(self, app: AsgiCall, access: str) -> Application:
        """Return an application that serves media itself and passes other requests to `app`.

        `access` selects the requests to log (see the setting `log.access`).
        """
        address_of = self.clients.client_address
        match access:
            case "all":
                # Wraps the origin too, whose fast path would bypass the log.
                whole = OriginFirst(self.origin, app)
                return AccessLog(whole, address_of=address_of, everything=True)
            case "api":
                return OriginFirst(self.origin, AccessLog(app, address_of=address_of))
            case _:
                return OriginFirst(self.origin, app)

    @classmethod
    def create(
        cls,
        settings: ServiceSettings,
        catalog: Catalog,
        objects: MediaStore,
        edge: EdgeReader,
        addresses: Addresses,
    ) -> "OriginRole":
        """Create the origin of a data folder.

        Raises:
            BadNetwork: `http.trusted_proxies` is not a list of networks.
            GeoError: the country database cannot be read.
        """
        clients = TrustedProxies.parse(settings.http.trusted_proxies)
        geo = CountryResolver(
            clients,
            database=settings.geo.database,
            trusted_header=settings.geo.trusted_header,
            private_country=settings.geo.private_country,
            public=bool(settings.http.public_url),
        )

        async def owner(authorization: str | None, hash_: str, /) -> bool:
            return await is_owner(catalog, authorization, hash_)

        sessions = BrowserSessions.of(catalog, addresses, catalog.clock.now_us)

        async def signed_in(cookie: str | None, hash_: str, /) -> bool:
            return await is_signed_in_owner(catalog, sessions, cookie, hash_)

        visibility = VisibilityCache(catalog.visibility, owner, geo.country, is_signed_in=signed_in)
        redirects, media_origin = _redirects(settings, catalog, objects)
        in_bucket = bucket_of(settings) is not None
        find_named = catalog.visibility.find_slates
        slates = SlateLookups(find_named) if in_bucket else None
        card = Asset.of(_CARD, Path(BUNDLE, _CARD).read_bytes())
        return cls(
            clients=clients,
            geo=geo,
            visibility=visibility,
            origin=Origin(
                objects=objects,
                edge=edge,
                visibility=visibility,
                card=card,
                redirects=redirects,
                absences=Absences() if in_bucket else None,
            ),
            handlers=[
                *page_handlers(
                    visibility,
                    addresses,
                    latency=settings.live.latency,
                    media_origin=media_origin,
                ),
                *document_handlers(visibility, catalog.projects, addresses),
                *oembed_handlers(visibility, addresses),
                *slate_image_handlers(objects, find_named, slates),
            ],
        )


def _redirects(
    settings: ServiceSettings, catalog: Catalog, objects: MediaStore
) -> tuple[Redirects | None, str]:
    """Return the redirects that the settings select, and the web origin that they lead to."""
    storage = settings.storage

    async def is_stored(address: str) -> bool:
        return await objects.stat(address) is not None

    match storage.delivery:
        case "redirect":
            bucket = signing_bucket(settings)
            seconds = storage.signed_seconds
            return SignedRedirects(bucket.sign, is_stored, seconds=seconds), bucket.origin
        case "cdn":
            parts = urlsplit(storage.cdn_url)
            origin = f"{parts.scheme}://{parts.netloc}"
            copy = partial(copy_for_cdn, objects)
            return CdnRedirects(storage.cdn_url, copy, catalog.cdn_folders.open), origin
        case "proxy":
            return None, ""
