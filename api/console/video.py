"""The page of one video: played, described, given another poster or file, published, deleted."""

from typing import Final

from litestar import Controller, Response, get
from litestar.di import NamedDependency

from api.console.label_choice import BY_NAME, MOST_CHOICES, category_choice, tag_choice
from api.console.page import Console
from api.http.auth import ApiRequest
from api.http.parameters import missing, still_there
from api.library.lookup import PROJECT
from api.videos.lookup import VIDEO, video_tag
from api.videos.presenter import VideoPresenter
from media.countries import COUNTRIES
from media.ladder import BOX_LABELS
from storage.catalog import Catalog
from storage.catalog.records.common import ProjectRecord
from storage.catalog.records.videos import WholeVideo

_DEPENDENCIES: Final = {**PROJECT, **VIDEO}
_FRAGMENTS: Final = {
    "heading": "_video_heading.html",
    "state": "_video_state.html",
    "details": "_video_details.html",
    "poster": "_video_poster.html",
    "renditions": "_video_renditions.html",
    "file": "_video_file.html",
}


class VideoPage(Controller):
    """The page of one video."""

    path = "/{project_id:str}/videos/{video_id:str}"
    dependencies = _DEPENDENCIES

    @get()
    async def show_video(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        video: NamedDependency[WholeVideo],
        catalog: NamedDependency[Catalog],
        video_presenter: NamedDependency[VideoPresenter],
        console: NamedDependency[Console],
        now_us: NamedDependency[int],
    ) -> Response[str]:
        """Show the page.

        Raises:
            ApiError: 404 if the video is of another project than that of the path.
        """
        record = video.video
        if record.project != project.id:
            raise missing("video")
        status = still_there(await catalog.videos.find_status(record.id), "video")
        return console.page(
            request,
            "video.html",
            fragments=_FRAGMENTS,
            project=project,
            video=record,
            whole=video,
            making=status,
            former=await catalog.former_files.find(record.id, now_us),
            tag=video_tag(video),
            addresses=video_presenter.addresses,
            embed=video_presenter.embed(record),
            box_labels=BOX_LABELS,
            countries=COUNTRIES,
            categories=await category_choice(catalog, project.id, video.category),
            known_tags=await tag_choice(catalog, project.id, video.tags),
            players=await catalog.players.find_page(project.id, sort=BY_NAME, size=MOST_CHOICES),
        )
