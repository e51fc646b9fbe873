"""Tags and categories: two kinds of labels, with the same operations."""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from litestar import Controller, Response
from litestar.di import NamedDependency, Provide

from api.http.conditional import IfMatch, tagged, unless_edited
from api.http.operation import Call, PlainCall, adds, deletes, edits, shows
from api.http.parameters import RecordId, envelope, number_of
from api.library.lookup import (
    PROJECT,
    GivenQuery,
    ProjectCall,
    label_tag,
    list_url,
    provide_list_query,
)
from api.schemas.common import Listing, named_schema
from api.schemas.text_fields import Name
from storage.catalog.library.labels import COLUMNS, Kind
from storage.catalog.records.common import LabelRecord, ProjectRecord

_EDIT_ERRORS: Final = (HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED)


class LabelAddition(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to add a tag or a category."""

    name: Name
    active: bool = True


class LabelEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What of a tag or a category is to change."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    active: bool | msgspec.UnsetType = msgspec.UNSET


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """A tag or a category; `active` is true until its owner sets it to false."""

    id: int
    name: str
    active: bool


class LabelShown(msgspec.Struct, frozen=True, kw_only=True):
    """One tag or one category."""

    data: Label


class TagAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding or editing a tag."""

    message: str
    tag: Label


class CategoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding or editing a category."""

    message: str
    category: Label


def _label(record: LabelRecord) -> Label:
    return Label(id=record.id, name=record.name, active=record.active)


LabelCall = NamedDependency[Call[LabelRecord]]


class _Labels(Controller):
    """What the controllers of a project's tags and of its categories have in common."""

    kind: Kind
    dependencies = {**PROJECT, "list_query": provide_list_query(COLUMNS)}  # noqa: RUF012  # Litestar's

    async def find_page(
        self, call: Call[ProjectRecord], query: GivenQuery, noun: str
    ) -> Listing[Label]:
        """Return a page of the labels of this kind; `noun` ends the list's address."""
        page = await call.catalog.labels.find_page(
            self.kind, call.record.id, search=query.search, sort=query.sort, page=query.page
        )
        labels = [_label(record) for record in page.items]
        return envelope(page, labels, path=list_url(call, noun), filters=query.filters)

    async def add(self, call: Call[ProjectRecord]) -> Label:
        """Add the label that the body describes."""
        body = await call.body(LabelAddition)
        return _label(
            await call.catalog.labels.add(
                self.kind, call.record.id, str(body.name), call.change(), active=body.active
            )
        )


class _OneLabel(Controller):
    """What the controllers of one tag and of one category have in common."""

    kind: Kind

    async def edit(self, call: Call[LabelRecord], if_match: str | None) -> LabelRecord:
        """Edit the label as the body says."""
        body = await call.body(LabelEdit)
        record = await call.catalog.labels.edit(
            self.kind,
            call.record.id,
            call.change(),
            name=None if body.name is msgspec.UNSET else str(body.name),
            active=None if body.active is msgspec.UNSET else body.active,
            check=unless_edited(if_match, label_tag),
        )
        return call.still_there(record)

    async def delete(self, call: Call[LabelRecord]) -> None:
        """Delete the label."""
        if not await call.catalog.labels.remove(self.kind, call.record.id, call.change()):
            raise call.missing()


async def _find(plain: Call[None], kind: Kind, text: str) -> Call[LabelRecord]:
    record = await plain.catalog.labels.find(kind, number_of(text, kind))
    return plain.to(record, record and record.project, kind)


async def provide_tag(plain: PlainCall, tag_id: RecordId) -> Call[LabelRecord]:
    """Return the call with the tag that a path names.

    Raises:
        ApiError: 404 if there is no such tag, or if the caller's token does not reach it.
    """
    return await _find(plain, "tag", tag_id)


async def provide_category(plain: PlainCall, category_id: RecordId) -> Call[LabelRecord]:
    """Return the call with the category that a path names.

    Raises:
        ApiError: 404 if there is no such category, or if the caller's token does not reach it.
    """
    return await _find(plain, "category", category_id)


class TagsController(_Labels):
    """The tags of a project."""

    path = "/projects/{project_id:str}/tags"
    tags = ("tags",)
    kind = "tag"

    @shows("List tags")
    async def list_tags(
        self, call: ProjectCall, list_query: GivenQuery
    ) -> Annotated[Listing[Label], named_schema("Listing_api.labels.Label_")]:
        """List a project's tags in pages of ten, newest first unless a column is named."""
        return await self.find_page(call, list_query, "tags")

    @adds("Add a tag", LabelAddition, errors=[HTTPStatus.CONFLICT])
    async def add_tag(self, call: ProjectCall) -> TagAnswer:
        """Make a tag; its name must be unique in the project, ignoring case."""
        return TagAnswer(message="Tag added.", tag=await self.add(call))


class TagController(_OneLabel):
    """One tag."""

    path = "/tags/{tag_id:str}"
    tags = ("tags",)
    kind = "tag"
    dependencies = {"call": Provide(provide_tag)}  # noqa: RUF012  # as above

    @shows("Show a tag")
    async def show_tag(self, call: LabelCall) -> Response[LabelShown]:
        """Show a tag; `ETag` names this version of it."""
        return tagged(LabelShown(data=_label(call.record)), label_tag(call.record))

    @edits("Edit a tag", LabelEdit, errors=_EDIT_ERRORS)
    async def edit_tag(self, call: LabelCall, if_match: IfMatch = None) -> Response[TagAnswer]:
        """Give a tag another name, or say whether it is active; keys that are not sent stay."""
        edited = await self.edit(call, if_match)
        return tagged(TagAnswer(message="Tag updated.", tag=_label(edited)), label_tag(edited))

    @deletes("Delete a tag")
    async def delete_tag(self, call: LabelCall) -> None:
        """Delete a tag; streams and videos lose it."""
        await self.delete(call)


class CategoriesController(_Labels):
    """The categories of a project."""

    path = "/projects/{project_id:str}/categories"
    tags = ("categories",)
    kind = "category"

    @shows("List categories")
    async def list_categories(
        self, call: ProjectCall, list_query: GivenQuery
    ) -> Annotated[Listing[Label], named_schema("Listing_api.labels.Label_")]:
        """List a project's categories in pages of ten, newest first unless a column is named."""
        return await self.find_page(call, list_query, "categories")

    @adds("Add a category", LabelAddition, errors=[HTTPStatus.CONFLICT])
    async def add_category(self, call: ProjectCall) -> CategoryAnswer:
        """Make a category; its name must be unique in the project, ignoring case."""
        return CategoryAnswer(message="Category added.", category=await self.add(call))


class CategoryController(_OneLabel):
    """One category."""

    path = "/categories/{category_id:str}"
    tags = ("categories",)
    kind = "category"
    dependencies = {"call": Provide(provide_category)}  # noqa: RUF012  # as above

    @shows("Show a category")
    async def show_category(self, call: LabelCall) -> Response[LabelShown]:
        """Show a category; `ETag` names this version of it."""
        return tagged(LabelShown(data=_label(call.record)), label_tag(call.record))

    @edits("Edit a category", LabelEdit, errors=_EDIT_ERRORS)
    async def edit_category(
        self, call: LabelCall, if_match: IfMatch = None
    ) -> Response[CategoryAnswer]:
        """Give a category another name, or say whether it is active; keys that are not sent
        stay.
        """
        edited = await self.edit(call, if_match)
        answer = CategoryAnswer(message="Category updated.", category=_label(edited))
        return tagged(answer, label_tag(edited))

    @deletes("Delete a category")
    async def delete_category(self, call: LabelCall) -> None:
        """Delete a category; streams and videos lose it."""
        await self.delete(call)
