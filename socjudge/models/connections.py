"""Keep connections to a service, so that a call needs no handshake, but let each rest before its next request.

Some gateways send a reply twice. On a connection that is handed on at once, the second one would be taken for the reply
to the next request.
"""

from __future__ import annotations

import time
from typing import Any

REST_S = 0.5  # what comes on a connection within this time after a reply belongs to nobody's request
KEEP_S = 4.0  # common servers close after five seconds; a request at that moment would be lost, and perhaps billed


def open_client(check_response: Any) -> Any:
    """Return an HTTP client for OpenAI's SDK. `check_response` is awaited with each response before it is read."""
    import aiohttp
    import openai

    class Rested(aiohttp.TCPConnector):
        # aiohttp asks here for a connection that is open already. Those that were used longest ago come first.
        async def _get(self, key: Any, traces: Any) -> Any:
            while (kept := self._conns.get(key)) and time.monotonic() - kept[0][1] >= REST_S:
                connection: Any = await super()._get(key, traces)
                if connection is None or not connection.protocol.should_close:
                    return connection
                connection.close()  # something came that was not asked for
            return None

    def opening(transport: Any) -> Any:
        # The engine limits how many calls there are at once.
        return lambda: aiohttp.ClientSession(
            connector=Rested(ssl=transport.ssl_context, keepalive_timeout=KEEP_S, limit=0)
        )

    client: Any = openai.DefaultAioHttpClient(event_hooks={"response": [check_response]})
    for transport in (client._transport, *client._mounts.values()):  # straight to the service, and through proxies
        if transport is not None:
            transport.client = opening(transport)
    return client
