"""A real S3 server for tests: Ceph's gateway with a monitor and an in-memory store."""

import hashlib
import hmac
import itertools
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
import uuid
import xml.etree.ElementTree as ElementTree
from base64 import b64encode
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from email.utils import formatdate
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import obstore
from obstore.store import S3Store

from storage.objects.s3_bucket import S3Location
from tests.support.free_ports import free_ports
from tests.support.waiting import poll

_TOOLS: Final = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "monmaptool", "ceph")
_MISSING: Final = "the tests need an S3 server: apt-get install radosgw ceph-mon ceph-osd"
_KEY: Final = "test"
_SECRET: Final = "S3CRET-of-the-bucket"
_SETTINGS: Final = """
[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{monitor}/0
public network = 127.0.0.0/8
ms bind msgr1 = false
ms mon client mode = crc
auth cluster required = none
auth service required = none
auth client required = none
run dir = {folder}
crash dir = {folder}
admin socket =
log file = {folder}/$name.log
osd pool default size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
paxos propose interval = 0.02
paxos min wait = 0.01
objecter tick interval = 0.25
objecter timeout = 1
[mon]
mon data = {folder}/mon
[osd]
osd data = {folder}/osd
osd objectstore = memstore
osd crush chooseleaf type = 0
osd fast shutdown = false
memstore device bytes = 4294967296
[client]
rgw data = {folder}
rgw frontends = beast endpoint={address}:{gateway} tcp_nodelay=1
rgw override bucket index max shards = 1
rgw num control oids = 1
"""
_CORS: Final = (
    b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
    b"<AllowedHeader>*</AllowedHeader></CORSRule></CORSConfiguration>"
)
_SUBRESOURCES: Final = ("cors", "policy")  # which the signature covers, unlike other queries
# Kills the program when the tests have ended for any reason: it waits for the end of its input.
_GUARD: Final = '"$@" </dev/null & cat >/dev/null; kill -KILL $!; wait'


class S3Server:
    """A running server with its gateway at an address; each test has its own bucket."""

    def __init__(
        self, folder: Path, monitor: int, gateway: int, address: str = "127.0.0.1"
    ) -> None:
        self.endpoint = f"http://{address}:{gateway}"
        self._folder = folder
        self._numbers = itertools.count(1)
        self._stack = ExitStack()
        self._gateway = ExitStack()
        fsid = str(uuid.uuid4())
        settings = _SETTINGS.format(
            fsid=fsid, folder=folder, monitor=monitor, address=address, gateway=gateway
        )
        (folder / "ceph.conf").write_text(settings)
        self._fsid = fsid
        self._monitor = monitor

    @property
    def credentials(self) -> dict[str, str]:
        """The environment variables of a client."""
        return {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _SECRET}

    def settings(self, bucket: S3Location) -> dict[str, str]:
        """Return the environment of a service that stores its media in this bucket."""
        return {
            **self.credentials,
            "HEADEND_STORAGE__URL": str(bucket),
            "HEADEND_STORAGE__ENDPOINT": bucket.endpoint,
            "HEADEND_STORAGE__REGION": bucket.region,
        }

    def start(self) -> None:
        """Create the cluster, and wait until the gateway responds."""
        folder = self._folder
        address = f"v2:127.0.0.1:{self._monitor}"
        (folder / "osd").mkdir()
        new_map = str(folder / "monmap")
        self._do("monmaptool", "--create", "--addv", "a", address, "--fsid", self._fsid, new_map)
        self._do("ceph-mon", "--mkfs", "-i", "a", "--monmap", new_map)
        self._run("ceph-mon", "-i", "a", "-f")
        self._do("ceph", "osd", "new", self._fsid)
        self._do("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", self._fsid)
        self._run("ceph-osd", "-i", "0", "-f")
        self._do("radosgw-admin", "user", "create", "--uid=test", "--display-name=test",
                 f"--access-key={_KEY}", f"--secret-key={_SECRET}")  # fmt: skip
        self.start_gateway()

    def start_gateway(self) -> None:
        """Start the S3 gateway, and wait until it responds."""
        self._run("radosgw", "-n", "client.rgw", "-f", stack=self._gateway)
        poll(self._answers, within=30, what="the gateway")

    def stop_gateway(self) -> None:
        """Kill the S3 gateway; acknowledged writes persist."""
        self._gateway.close()

    def stop(self) -> None:
        """Kill all processes."""
        self._gateway.close()
        self._stack.close()

    def new_bucket(self, prefix: str = "") -> S3Location:
        """Create a bucket, and return it with a prefix."""
        name = f"test-{next(self._numbers)}"
        bucket = S3Location(bucket=name, prefix=prefix, endpoint=self.endpoint, region="us-east-1")
        url = obstore.sign(self.client(name), "PUT", "", timedelta(minutes=1))
        urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=30).close()
        return bucket

    def allow_pages(self, bucket: str) -> None:
        """Allow cross-origin reads from a bucket, as redirected viewers need."""
        self._signed("PUT", bucket, "cors", body=_CORS)

    def set_policy(self, bucket: str, policy: str) -> None:
        """Give a bucket a policy, a JSON document."""
        self._signed("PUT", bucket, "policy", body=policy.encode())

    def open_to_all(self, bucket: str, key: str) -> bytes | None:
        """Return an object as anyone without credentials gets it; None if that is refused."""
        try:
            with urllib.request.urlopen(f"{self.endpoint}/{bucket}/{key}", timeout=30) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            assert error.code in {403, 404}, error.code
            return None

    def versions(self, bucket: str, prefix: str) -> dict[str, str]:
        """Return the entity tags of all objects whose keys begin with a prefix, by key.

        The tag of an object put in one piece is the MD5 of its bytes. Unlike `keys`, this connects
        from the calling thread, which may be in another network namespace.
        """
        tags: dict[str, str] = {}
        while True:
            query = {"prefix": prefix, "marker": max(tags, default="")}
            page = ElementTree.fromstring(self._signed("GET", bucket, urlencode(query)))
            listed = {
                each.findtext("{*}Key", ""): each.findtext("{*}ETag", "").strip('"')
                for each in page.iterfind("{*}Contents")
            }
            tags |= listed
            if page.findtext("{*}IsTruncated") != "true":
                return tags

    def read(self, bucket: str, key: str) -> bytes:
        """Return an object's bytes; like `versions`, it connects from the calling thread."""
        return self._signed("GET", f"{bucket}/{key}")

    def keys(self, bucket: str, prefix: str) -> list[str]:
        """Return the sorted keys with a prefix."""
        pages = obstore.list(self.client(bucket), prefix)  # pyright: ignore[reportUnknownMemberType]
        return sorted(each["path"] for page in pages for each in page)

    def client(self, bucket: str) -> S3Store:
        """Return a third-party client for a bucket."""
        return S3Store(
            bucket,
            endpoint=self.endpoint,
            region="us-east-1",
            access_key_id=_KEY,
            secret_access_key=_SECRET,
            client_options={"allow_http": True},
        )

    def _signed(self, method: str, path: str, query: str = "", body: bytes | None = None) -> bytes:
        """Send a request with a version 2 signature, and return the response.

        For operations that the client does not have.
        """
        kind, when = "application/xml" if body else "", formatdate(usegmt=True)
        digest = (
            b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode() if body else ""
        )
        resource = f"/{path}?{query}" if query in _SUBRESOURCES else f"/{path}"
        signed = f"{method}\n{digest}\n{kind}\n{when}\n{resource}"
        code = hmac.digest(_SECRET.encode(), signed.encode(), "sha1")
        headers = {"Authorization": f"AWS {_KEY}:{b64encode(code).decode()}", "Date": when}
        if body:
            headers |= {"Content-MD5": digest, "Content-Type": kind}
        address = f"{self.endpoint}/{path}?{query}"
        request = urllib.request.Request(address, data=body, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def _answers(self) -> bool | None:
        try:
            urllib.request.urlopen(self.endpoint, timeout=5).close()
        except OSError:
            return None
        return True

    def _do(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [program, "-c", str(self._folder / "ceph.conf"), *arguments]
            if program != "monmaptool"
            else [program, *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
            cwd=self._folder,
        )  # fmt: skip
        assert done.returncode == 0, (program, done.stderr)

    def _run(self, program: str, *arguments: str, stack: ExitStack | None = None) -> None:
        command = ["sh", "-c", _GUARD, "sh", program, "-c", str(self._folder / "ceph.conf")]
        with (self._folder / f"{program}.out").open("wb") as output:
            guard = subprocess.Popen(
                [*command, *arguments], stdin=subprocess.PIPE, stdout=output, stderr=output,
                cwd=self._folder,
            )  # fmt: skip
        assert guard.stdin is not None
        cleanup = stack or self._stack
        cleanup.callback(guard.wait, 20)
        cleanup.callback(guard.stdin.close)


@contextmanager
def running_s3(address: str = "127.0.0.1") -> Generator[S3Server]:
    """Run a server for the length of the block, with its gateway at an address."""
    assert all(map(shutil.which, _TOOLS)), _MISSING
    with tempfile.TemporaryDirectory(prefix="s3-") as folder:
        monitor, gateway = free_ports(2)
        server = S3Server(Path(folder), monitor, gateway, address)
        try:
            server.start()
            yield server
        finally:
            server.stop()
