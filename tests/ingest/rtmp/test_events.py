from ingest.rtmp.events import PublishRequested


def test_a_publish_request_hides_its_key_and_query() -> None:
    request = PublishRequested(
        application="live", name="S3CRET", query={"token": "H1DDEN"}, host="ingest.example"
    )
    for text in (repr(request), str(request), f"{request}"):
        assert "S3CRET" not in text
        assert "H1DDEN" not in text
        assert "'live'" in text
        assert "ingest.example" in text
