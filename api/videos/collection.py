"""The videos of a project, listed and tried again. They are added in `api.uploads`."""

from http import HTTPStatus
from typing import Annotated

from litestar import Controller, get, post
from litestar.di import NamedDependency, Provide

from api.http.auth import ApiRequest, needs_write
from api.http.error_statuses import CHANGE_ERRORS, READ_ERRORS
from api.http.errors import documented
from api.http.paging import envelope
from api.library.lookup import ProjectId, list_url, provide_project
from api.schemas.common import Listing, named_schema
from api.videos.list_query import VideoListQuery, provide_list_query
from api.videos.presenter import VideoPresenter
from api.videos.schemas import VideoItem, VideosRetried
from storage.catalog import Catalog
from storage.catalog.records.common import Change


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
        self,
        request: ApiRequest,
        project_id: ProjectId,
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        list_query: NamedDependency[VideoListQuery],
    ) -> Annotated[Listing[VideoItem], named_schema("Listing_api.videobodies.VideoItem_")]:
        """List a project's videos in pages of thirty, newest first unless a column is named."""
        # Not a dependency, which would come first: this list has always answered 422 before 404.
        project = await provide_project(request, project_id, catalog)
        page = await catalog.videos.find_page(project, list_query.query, list_query.page)
        return envelope(
            page,
            [video_presenter.item(record) for record in page.items],
            path=list_url(video_presenter.addresses, project_id, "videos"),
            filters=list_query.filters,
        )

    @post(
        "/retry",
        guards=[needs_write],
        status_code=HTTPStatus.OK,
        summary="Try failed videos again",
        responses=documented(*CHANGE_ERRORS),
    )
    async def retry_failed_videos(
        self,
        request: ApiRequest,
        project_id: ProjectId,
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
    ) -> VideosRetried:
        """Queue a project's failed videos again, the oldest thousand at a time."""
        project = await provide_project(request, project_id, catalog)
        retried = await catalog.videos.retry_failed(project.id, Change(now_us, by=request.auth.id))
        return VideosRetried(message="Failed videos queued again.", videos=retried)
