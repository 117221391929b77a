"""Signs requests to AWS by its own library, which finds and renews credentials; it is imported with the first request.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rollouts.errors import Unanswered
from rollouts.metrics.requests import HttpRequest, Signature

NOT_INSTALLED = (
    "requests to AWS are signed by botocore, and it is not installed: make image REQUIREMENTS=requirements-aws.lock, or"
    " pip install '.[aws]' in the source tree"
)


class Signer:
    """Signs with the identity of a MetricProvider, or with what AWS's tools find where the controller runs."""

    def __init__(self) -> None:
        # Finding credentials may ask a service, which blocks.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sigv4")
        self._found: Any = None

    async def signed(self, request: HttpRequest, signature: Signature) -> tuple[tuple[str, str], ...]:
        """The headers that make the request a signed one.

        Cancellation: safe. Raises: Unanswered without the library or credentials.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._headers, request, signature)

    def close(self) -> None:
        """Ends the thread; safe to call twice."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _headers(self, request: HttpRequest, signature: Signature) -> tuple[tuple[str, str], ...]:
        try:
            from botocore.auth import SigV4Auth  # noqa: PLC0415 - 20 MiB that only those who ask AWS pay
            from botocore.awsrequest import AWSRequest  # noqa: PLC0415
            from botocore.credentials import Credentials  # noqa: PLC0415
            from botocore.session import get_session  # noqa: PLC0415
        except ImportError as exc:
            raise Unanswered(NOT_INSTALLED) from exc
        if signature.secret_key is not None:
            credentials: Any = Credentials(signature.access_key, signature.secret_key.reveal())
        else:
            try:
                self._found = self._found or get_session().get_credentials()
                credentials = self._found.get_frozen_credentials() if self._found is not None else None
            except Exception as exc:  # whatever its providers of credentials raise
                raise Unanswered(f"AWS gives no credentials: {type(exc).__name__}") from exc
            if credentials is None:
                raise Unanswered("there are no credentials of AWS where the controller runs: give its account a role")
        headers = {name: value.reveal() for name, value in request.headers}
        signed = AWSRequest(method=request.method, url=request.url, data=request.body, headers=headers)
        SigV4Auth(credentials, signature.service, signature.region).add_auth(signed)
        return tuple((name, value) for name, value in signed.headers.items() if name not in headers)
