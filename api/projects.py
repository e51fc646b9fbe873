"""The project of a path, where the caller may know of it."""

from http import HTTPStatus
from typing import Annotated

from litestar.params import PathParameter

from api.errors import ApiError
from storage.catalog import Catalog
from storage.catalog.records import Principal, ProjectRecord

__all__ = ["ProjectId", "project_of"]

ProjectId = Annotated[str, PathParameter(description="The project's number or its short string.")]


async def project_of(catalog: Catalog, caller: Principal, name: str) -> ProjectRecord:
    """Return the project of a path.

    Raises:
        ApiError: 404 where there is none, or none that the caller may know of.
    """
    project = await catalog.find_project(name)
    if project is None or not caller.reaches(project.id):
        raise ApiError(HTTPStatus.NOT_FOUND, "There is no such project.")
    return project
