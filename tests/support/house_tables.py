"""The exceptions to the rules of `tests/test_house.py`, with their reasons."""

from typing import Final

# Modules that need no test file of their own: {"room/module.py": "why"}.
WITHOUT_TEST: Final[dict[str, str]] = {
    "api/ports.py": "protocols: nothing runs",
    "api/uploads/schemas.py": "bodies without constraints: nothing runs",
    "headend/config/backup_settings.py": "fields without rules of their own",
    "ingest/rtmp/errors.py": "a tree of errors: nothing runs",
    "ingest/stream/ports.py": "protocols: nothing runs",
    "media/encoder_report.py": "values: nothing runs",
    "media/packet.py": "a value: nothing runs",
    "media/source_comparison.py": "a value: nothing runs",
    "media/source_fault.py": "a value: nothing runs",
    "storage/bus/base.py": "protocols and errors: each implementation has its tests",
    "storage/catalog/engine/connection.py": "protocols: nothing runs",
    "storage/catalog/records/transcoding.py": "values: nothing runs",
    "storage/catalog/schema/alert_tables.py": "tables: the migrations are compared with them",
    "storage/catalog/schema/tables.py": "tables: the migrations are compared with them",
    "storage/catalog/schema/upload_tables.py": "tables: the migrations are compared with them",
    "delivery/edge/base.py": "protocols and errors: each implementation has its tests",
    "storage/errors.py": "a tree of errors: nothing runs",
    "transcode/live/ports.py": "protocols: nothing runs",
}
