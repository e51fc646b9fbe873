"""The bucket policy that the docs give for a CDN, for a test's own bucket."""

import json
import re
from pathlib import Path
from typing import Any, Final

from storage.objects.s3_bucket import S3Location

_PAGE: Final = Path(__file__).parents[3] / "docs" / "cdn.md"


def policy_of_the_docs(bucket: S3Location) -> str:
    """Return the policy with anyone in the place of the CDN: what that may read, the CDN may."""
    (text,) = re.findall(r"```json\n(\{\n  \"Version\".*?)```", _PAGE.read_text(), re.DOTALL)
    policy: dict[str, Any] = json.loads(text)  # Any: a document of Amazon's
    (statement,) = policy["Statement"]
    del statement["Condition"]
    statement["Principal"] = "*"
    named = statement["Resource"].replace("BUCKET", bucket.bucket)
    statement["Resource"] = named.replace("PREFIX", bucket.prefix)
    return json.dumps(policy)
