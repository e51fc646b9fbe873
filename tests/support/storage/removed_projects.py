"""Removes the rows of deleted projects like the service, but without their media."""

from storage.catalog import Catalog


async def remove_rows(catalog: Catalog) -> list[int]:
    """Remove the rows of all deleted projects; return the number with media per transaction."""
    sizes: list[int] = []
    removed = catalog.removed_projects
    while (project := await removed.find()) is not None:
        while await removed.remove_jobs(project.id):
            pass
        while (rows := await removed.find_rows(project.id)) is not None:
            await removed.remove_rows(rows)
            sizes.append(len(rows.hashes) + len(rows.names))
        while not await removed.remove_rest(project.id):
            pass
    return sizes
