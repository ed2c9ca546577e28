"""`finegraph serve`, and the QR code with which a phone opens its page without typing.

Two rows of the code make one line of half blocks, black on white whatever the colours of the terminal are. A terminal
that cannot show it, for want of colours, letters or room, gets none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode, urlsplit

import typer

from finegraph.cli.process import usable_cores
from finegraph.cli.shared_options import AllowHost, Host, JsonAddress, Port, Run, Token
from finegraph.cli.terminal import console, count, print_json, printable

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.web.serve.serve_settings import ServeSettings


BORDER = 2
"""How many light modules stand around the code; phones need some."""
_BLOCKS = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


def serve(
    model: Run,
    index: Annotated[
        Path | None, typer.Option(metavar="INDEX", help="An index folder of the same model, to search in.")
    ] = None,
    samples: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A folder of photos that the page offers to try.")
    ] = None,
    to_label: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Photos that the page asks people to label; from suggest-photos -o."),
    ] = None,
    teach: Annotated[
        bool, typer.Option("--teach", help="Let people correct answers; lessons are kept in the model folder.")
    ] = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    allow_host: AllowHost = None,
    queue: Annotated[int, typer.Option(min=1, help="How many photos may be in the server at once.")] = 64,
    per_client: Annotated[
        int | None,
        typer.Option(min=1, help="How many of them may be of one client; by default half, and all of this machine."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many batches to compute at once; by default one per core.")
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="auto|onnx|torch", help="What computes features; auto: ONNX Runtime where installed.")
    ] = "auto",
    small_index: Annotated[
        bool,
        typer.Option(
            "--small-index", help="Leave the vectors of an approximate index on the disk; misses a little more."
        ),
    ] = False,
    weights: Annotated[
        str,
        typer.Option(
            metavar="float32|bfloat16|int8", help="The last layer's weights; int8 takes a quarter of the memory."
        ),
    ] = "float32",
    as_json: JsonAddress = False,
) -> None:
    """Serve a model: a page to drop photos on, and an HTTP API.

    Ctrl-C answers open requests and stops. SIGHUP loads the model again from its folder without dropping a request.
    Uploads are never kept.
    """
    from finegraph.cli.next_commands import check_extra

    check_extra()
    from finegraph.web.decoding import DecodingSettings
    from finegraph.web.security import Security
    from finegraph.web.serve.serve_settings import ServeSettings
    from finegraph.workflows.suggest_photos import read_photo_list

    cores = usable_cores()
    settings = ServeSettings(
        model=model,
        index=index,
        samples=samples,
        to_label=() if to_label is None else tuple(read_photo_list(to_label)),
        teach=teach,
        security=Security(host=host, port=port, token=token or None, hosts=tuple(allow_host or ())),
        decoding=DecodingSettings(workers=max(1, cores)),
        threads=threads or cores,
        queue=queue,
        per_client=per_client,
        engine=engine,  # type: ignore[arg-type]  # checked there
        small_index=small_index,
        weights=weights,  # type: ignore[arg-type]  # the same
    )
    serve_until_stopped(settings, as_json=as_json)


def serve_until_stopped(settings: ServeSettings, *, as_json: bool = False) -> None:
    """Serve a model and say where.

    Args:
        settings: of the server.
        as_json: whether to print the address as one JSON document.
    """
    from finegraph.cli.serve import print_qr_code, sign_in_link
    from finegraph.web.security import is_loopback, reachable
    from finegraph.web.serve.model_server import serve as serve_model

    model, host, token = str(settings.model), settings.security.host, settings.security.token

    def on_ready(address: str) -> None:
        others = reachable(host, urlsplit(address).port or settings.security.port)[1:]
        if as_json:
            print_json({"address": address, "others": others, "model": model, "process": os.getpid()})
        else:
            console().print(f"{printable(model)} is served at {address}   (Ctrl-C stops)")
            if settings.to_label:
                console().print(f"{count(len(settings.to_label), 'photo')} to label there; each is learnt at once")
            if others:
                console().print(f"also at {', '.join(others)}; other names of it need --allow-host NAME")
            if not is_loopback(host) and print_qr_code(console(), sign_in_link(address, token)):
                console().print("Scan it with a phone in the same network. It holds the token: keep it private.")
        sys.stdout.flush()  # a calling program may wait for this line

    serve_model(settings, on_ready)


def sign_in_link(address: str, token: str | None) -> str:
    """The address of a page for a phone that does not know the token yet; the page forgets it at once.

    Args:
        address: of the server, with a slash at its end.
        token: what every request must bring; None if there is none.
    """
    return address if token is None else f"{address}?{urlencode({'token': token})}"


def print_qr_code(out: Console, text: str) -> bool:
    """Print the QR code of a text if the terminal can show it; returns whether it did.

    Args:
        out: the terminal.
        text: what the code holds, such as an address.
    """
    import segno
    from rich.text import Text

    if not out.is_terminal or out.color_system is None or not _can_encode(out.encoding):
        return False
    code = segno.make(text, error="l", micro=False)
    rows = [[module != 0 for module in row] for row in code.matrix_iter(border=BORDER)]
    lines = half_blocks(rows)
    if len(lines[0]) > out.width:
        return False
    for line in lines:
        out.print(Text(line, style="#000000 on #ffffff"), soft_wrap=True)
    return True


def half_blocks(rows: Sequence[Sequence[bool]]) -> list[str]:
    """Rows of dark and light modules as lines of half blocks, two rows in each."""
    padded = [*rows, [False] * len(rows[0])] if len(rows) % 2 else rows
    return [
        "".join(_BLOCKS[pair] for pair in zip(above, below, strict=True))
        for above, below in zip(padded[::2], padded[1::2], strict=True)
    ]


def _can_encode(encoding: str) -> bool:
    try:
        "".join(_BLOCKS.values()).encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True
