"""The addresses at which clients reach a server, found without sending a packet.

A server that listens on all addresses of the machine (`0.0.0.0`, `::`) is not reached by that name but by the address
of the machine in its network. To find that address, the operating system is asked which one it would send from; the
destination of the lookup is an address that no machine has.
"""

from __future__ import annotations

import ipaddress
import socket

_UNUSED_ADDRESSES = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses reserved for documentation, which no machine has."""


def reachable(host: str, port: int) -> list[str]:
    """The addresses of a server as people type them, the one for other machines first.

    Args:
        host: the address that it listens on.
        port: its port.
    """
    if not _is_wildcard(host):
        return [_address(host, port)]
    families = (socket.AF_INET6, socket.AF_INET) if ":" in host else (socket.AF_INET,)
    addresses = [address for family in families if (address := _own_address(family)) is not None]
    loopback = "::1" if ":" in host else "127.0.0.1"
    return [_address(name, port) for name in dict.fromkeys([*addresses, loopback])]


def machine_names() -> set[str]:
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
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_UNUSED_ADDRESSES[family], 9))  # sends no packet: this only looks up the route
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
