"""TLS settings: one context for each way to verify, made once a process.

Loading a CA bundle takes about 20 ms, which urllib3 would spend on every new connection.
"""

from __future__ import annotations

import functools
import os
import ssl

from certifi import where
from urllib3.util.ssl_ import create_urllib3_context

from yiemagent.errors import ConfigurationError

__all__ = ["ssl_context"]


@functools.lru_cache(maxsize=16)
def ssl_context(verify: bool | str, cert: str | tuple[str, str] | None) -> ssl.SSLContext:
    """The context for these settings; the same one for the same settings.

    Args:
        verify: True for the bundle of certifi, a path of a file or directory for another one,
            False for no verification.
        cert: Client certificate: a path, or paths of certificate and key.

    Raises:
        ConfigurationError: A file does not exist or is no certificate.
    """
    context = create_urllib3_context()
    if verify is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        bundle = where() if verify is True else verify
        _load(context, bundle)
    if cert is not None:
        pair = (cert, None) if isinstance(cert, str) else cert
        try:
            context.load_cert_chain(*pair)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"client certificate {pair[0]!r} cannot be used: {error}") from error
    return context


def _load(context: ssl.SSLContext, bundle: str) -> None:
    try:
        if os.path.isdir(bundle):
            context.load_verify_locations(capath=bundle)
        else:
            context.load_verify_locations(cafile=bundle)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"CA bundle {bundle!r} cannot be used: {error}; give verify=PATH or set REQUESTS_CA_BUNDLE"
        ) from error
