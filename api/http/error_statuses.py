"""The error statuses that operations of one kind have in common, for `api.http.errors.documented`.

`documented` itself adds those that any operation may answer with (400, 401, 422, 429, 500, 503).
"""

from http import HTTPStatus
from typing import Final

READ_ERRORS: Final = (HTTPStatus.NOT_FOUND,)
CHANGE_ERRORS: Final = (*READ_ERRORS, HTTPStatus.FORBIDDEN)  # without a body
BODY_ERRORS: Final = (  # with a JSON body
    *CHANGE_ERRORS,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
FORM_ERRORS: Final = (*BODY_ERRORS, HTTPStatus.REQUEST_TIMEOUT)  # with a file
