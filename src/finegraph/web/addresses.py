"""The addresses under which a server is reached. Nothing is sent to find out.

A server that listens on all addresses of the machine (`0.0.0.0`, `::`) is reached by those it has in its networks, not
by that name. The one that others reach is the one that the system would send from: it is asked for the route to an
address that nobody has, and no packet goes out.
"""

from __future__ import annotations

import ipaddress
import socket

_NOWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses for examples, which no machine has."""


def reachable(host: str, port: int) -> list[str]:
    """The addresses of a server as people type them, the one for other machines first.

    Args:
        host: the address that it listens on.
        port: its port.
    """
    if not _is_wildcard(host):
        return [_address(host, port)]
    families = (socket.AF_INET6, socket.AF_INET) if ":" in host else (socket.AF_INET,)
    own = [found for family in families if (found := _own_address(family)) is not None]
    loopback = "::1" if ":" in host else "127.0.0.1"
    return [_address(name, port) for name in dict.fromkeys([*own, loopback])]


def own_names() -> set[str]:
    """The names of this machine: its host name, and `NAME.local`."""
    name = socket.gethostname().lower()
    return {name, f"{name.partition('.')[0]}.local"}


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _own_address(family: socket.AddressFamily) -> str | None:
    """The address that this machine would send from; None if it has no route to others."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect((_NOWHERE[family], 9))  # sends no packet: this only looks up the route
            return str(asked.getsockname()[0])
    except OSError:
        return None


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
