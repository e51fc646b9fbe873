"""The videos of a project, listed and tried again. They are added in `api.uploads`."""

from typing import Annotated

from litestar import Controller, get
from litestar.di import NamedDependency, Provide

from api.http.errors import documented
from api.http.operation import READ_ERRORS, PlainCall, commands
from api.http.parameters import envelope
from api.library.lookup import ProjectId, find_project, list_url
from api.schemas.common import Listing, named_schema
from api.videos.list_query import VideoListQuery, provide_list_query
from api.videos.presenter import VideoPresenter
from api.videos.schemas import VideoItem, VideosRetried


class VideosController(Controller):
    """The videos of a project."""

    path = "/projects/{project_id:str}/videos"
    tags = ("videos",)

    @get(
        dependencies={"list_query": Provide(provide_list_query, sync_to_thread=False)},
        summary="List videos",
        responses=documented(*READ_ERRORS),
    )
    async def list_videos(
        self, plain: PlainCall, project_id: ProjectId, list_query: NamedDependency[VideoListQuery]
    ) -> Annotated[Listing[VideoItem], named_schema("Listing_api.videobodies.VideoItem_")]:
        """List a project's videos in pages of thirty, newest first unless a column is named."""
        # Not a dependency, which would come first: this list has always answered 422 before 404.
        project = (await find_project(plain, project_id)).record
        presenter = VideoPresenter.of(plain.presenter)
        page = await plain.catalog.videos.find_page(project, list_query.query, list_query.page)
        return envelope(
            page,
            [presenter.item(record) for record in page.items],
            path=list_url(plain, "videos"),
            filters=list_query.filters,
        )

    @commands("Try failed videos again", "/retry")
    async def retry_failed_videos(self, plain: PlainCall, project_id: ProjectId) -> VideosRetried:
        """Queue a project's failed videos again, the oldest thousand at a time."""
        project = (await find_project(plain, project_id)).record
        retried = await plain.catalog.videos.retry_failed(project.id, plain.change())
        return VideosRetried(message="Failed videos queued again.", videos=retried)
