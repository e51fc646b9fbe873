"""An HTTP client of the console that sends cookies and headers as a browser does."""

from typing import Any, Final

from httpx import Response

from tests.support.api.application import ApiService

COOKIE: Final = "__Host-headend_session"
SAME_ORIGIN: Final = {"Sec-Fetch-Site": "same-origin"}
_ACT: Final = {**SAME_ORIGIN, "X-Headend-Console": "1"}


class Browser:
    """A browser session; it stores the cookie itself, since that is marked Secure."""

    def __init__(self, api_service: ApiService) -> None:
        self._client = api_service.client
        self._service = api_service
        self.secret: str | None = None

    async def sign_in(self, token: str | None = None, **fields: str) -> Response:
        """Submit the sign-in form, by default with the owner's token."""
        owner = self._service.owner["Authorization"].removeprefix("Bearer ")
        return await self.send("/console/sign-in", {"token": token or owner, **fields})

    async def send(
        self, path: str, fields: dict[str, str], headers: dict[str, str] | None = None
    ) -> Response:
        """Submit a form of a same-origin page, unless `headers` say otherwise."""
        all_headers = {**self._cookies(), **(SAME_ORIGIN if headers is None else headers)}
        answer = await self._client.post(
            path, data=fields, headers=all_headers, follow_redirects=False
        )
        return self._store_cookies(answer)

    async def get(self, path: str, headers: dict[str, str] | None = None) -> Response:
        """Fetch a page."""
        all_headers = {**self._cookies(), **(headers or {})}
        return await self._client.get(path, headers=all_headers, follow_redirects=False)

    async def fragment(self, path: str, target: str) -> Response:
        """Fetch a fragment as the page's script does."""
        return await self.get(path, {"HX-Request": "true", "HX-Target": target})

    async def act(
        self,
        method: str,
        path: str,
        json: Any = None,  # Any: what a test sends
        headers: dict[str, str] | None = None,
    ) -> Response:
        """Send a request to the API as a page's script does, unless `headers` say otherwise."""
        all_headers = {**self._cookies(), **(_ACT if headers is None else headers)}
        return await self._client.request(method, path, json=json, headers=all_headers)

    def _cookies(self) -> dict[str, str]:
        return {} if self.secret is None else {"Cookie": f"{COOKIE}={self.secret}"}

    def _store_cookies(self, answer: Response) -> Response:
        for cookie in answer.headers.get_list("set-cookie"):
            pair = cookie.partition(";")[0]
            name, _, secret = pair.partition("=")
            assert name == COOKIE
            self.secret = secret or None
        return answer
