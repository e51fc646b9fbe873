from ingest.rtmp.events import PublishRequested


def test_a_publish_request_hides_its_key() -> None:
    request = PublishRequested(application="live", name="S3CRET")
    for text in (repr(request), str(request), f"{request}"):
        assert "S3CRET" not in text
        assert "'live'" in text
