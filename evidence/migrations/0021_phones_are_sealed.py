"""The secrets that phones share with the server, sealed where they stood in clear."""

import base64
import hashlib
import hmac
import os
import re
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.db import migrations

IN_CLEAR = re.compile(r"(?:[0-9a-f]{2}){1,40}")
NONCE = 12


def seal(apps: Any, schema_editor: Any) -> None:
    key = hmac.digest(settings.SECRET_KEY.encode(), b"pdpp/second factor", hashlib.sha256)
    for device in apps.get_model("otp_totp", "TOTPDevice").objects.all():
        if IN_CLEAR.fullmatch(device.key):
            nonce, bound_to = os.urandom(NONCE), str(device.user_id).encode()
            kept = nonce + AESGCM(key).encrypt(nonce, bytes.fromhex(device.key), bound_to)
            device.key = base64.b64encode(kept).decode()
            device.save(update_fields=["key"])


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0020_labels_of_the_owner"),
        ("otp_totp", "0003_add_timestamps"),
    ]

    operations = [
        migrations.RunPython(seal, migrations.RunPython.noop, elidable=False),
    ]
