#!/usr/bin/env python3
"""A client of TLS for tests that speak plain HTTP: takes connections on a port of its own, which it prints, and
passes each on, encrypted, to the portal. The certificate must be right for the name in the request's Host, as
in a browser.

    tls_relay.py ADDRESS:PORT CERTIFICATE"""
import asyncio
import re
import ssl
import sys

ADDRESS, PORT = sys.argv[1].rsplit(":", 1)
CONTEXT = ssl.create_default_context(cafile=sys.argv[2])


async def copy(source, sink):
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


async def serve(reader, writer):
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        host = re.search(rb"\r\nHost: ([^:\r]+)", head)[1].decode()
        there = await asyncio.open_connection(ADDRESS, int(PORT), ssl=CONTEXT, server_hostname=host)
    except (OSError, asyncio.IncompleteReadError) as error:
        print(error, file=sys.stderr)
        writer.close()
        return
    there[1].write(head)
    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
