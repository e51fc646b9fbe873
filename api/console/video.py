"""The page of one video: played, described, given another poster or file, published, deleted."""

from typing import Final

from litestar import Response, get

from api.console.label_choice import BY_NAME, MOST_CHOICES, category_choice, tag_choice
from api.console.page import GivenConsole
from api.library.lookup import PROJECT, ProjectCall
from api.videos.lookup import VIDEO, VideoCall, video_tag
from api.videos.presenter import VideoPresenter
from media.countries import COUNTRIES
from media.ladder import BOX_LABELS

_DEPENDENCIES: Final = {**VIDEO, "project": PROJECT["call"]}
_FRAGMENTS: Final = {
    "heading": "_video_heading.html",
    "state": "_video_state.html",
    "details": "_video_details.html",
    "poster": "_video_poster.html",
    "renditions": "_video_renditions.html",
    "file": "_video_file.html",
}


@get("/{project_id:str}/videos/{video_id:str}", dependencies=_DEPENDENCIES)
async def video_page(call: VideoCall, project: ProjectCall, console: GivenConsole) -> Response[str]:
    """Show the page.

    Raises:
        ApiError: 404 if the video is of another project than that of the path.
    """
    record = call.record.video
    if record.project != project.record.id:
        raise call.missing()
    status = call.still_there(await call.catalog.videos.find_status(record.id))
    return console.page(
        call.request,
        "video.html",
        fragments=_FRAGMENTS,
        project=project.record,
        video=record,
        whole=call.record,
        making=status,
        former=await call.catalog.former_files.find(record.id, call.now_us()),
        tag=video_tag(call.record),
        addresses=call.addresses,
        embed=VideoPresenter.of(call.presenter).embed(record),
        box_labels=BOX_LABELS,
        countries=COUNTRIES,
        categories=await category_choice(call.catalog, project.record.id, call.record.category),
        known_tags=await tag_choice(call.catalog, project.record.id, call.record.tags),
        players=await call.catalog.players.find_page(
            project.record.id, sort=BY_NAME, size=MOST_CHOICES
        ),
    )
