"""How long the certificates of RTMPS are valid, for `headend doctor` and for mail to operators."""

import datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from api.operations.report import Finding
from headend.config.settings import ServiceSettings
from headend.install.certificates import CertificateFiles
from media.ticks import utc

# Two weeks leave time to order a certificate by hand. The local one is renewed 30 days before its
# end at a start or reload, so one with less time left belongs to a service that had neither.
_CERTIFICATE_DAYS: Final = 14


def check_certificates(settings: ServiceSettings, folder: Path, now_us: int) -> list[Finding]:
    """Check the certificates of RTMPS: the operator's, or the local ones if they exist."""
    if not settings.rtmps.listen:
        return []
    if settings.rtmps.certificate:
        return [_certificate(Path(settings.rtmps.certificate), "replace it", now_us)]
    ours = CertificateFiles(folder)
    return [
        _certificate(path, remedy, now_us)
        for path, remedy in (
            (ours.leaf, "restart or reload Headend, which renews it"),
            (ours.authority, "delete it, restart, and make encoders trust the new one"),
        )
        if path.exists()
    ]


def _certificate(path: Path, remedy: str, now_us: int) -> Finding:
    topic = f"certificate {path.name}"
    now = utc(now_us)
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return Finding(topic=topic, verdict="act", text=f"{path} cannot be read")
    ends = certificate.not_valid_after_utc
    if certificate.not_valid_before_utc > now:
        text = f"it is valid from {certificate.not_valid_before_utc:%Y-%m-%d} on: check the clock"
    elif ends - now < datetime.timedelta(days=_CERTIFICATE_DAYS):
        text = f"it expires on {ends:%Y-%m-%d}: {remedy}"
    else:
        return Finding(topic=topic, verdict="well", text=f"until {ends:%Y-%m-%d}")
    return Finding(topic=topic, verdict="act", text=text)
