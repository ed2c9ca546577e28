"""`finegraph serve`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from finegraph.cli.process import usable_cores
from finegraph.cli.terminal import console, count, print_json, printable

if TYPE_CHECKING:
    from finegraph.web.serve.serve_settings import ServeSettings


def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A run folder or a model folder.")],
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
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="FINEGRAPH_TOKEN", help="Required with every request; needed on a public address."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A further name of this server; repeat it for more.")
    ] = None,
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
        typer.Option("--small-index", help="Hold a quarter of an approximate index in memory; misses a little more."),
    ] = False,
    weights: Annotated[
        str,
        typer.Option(
            metavar="float32|bfloat16|int8", help="The last layer's weights; int8 takes a quarter of the memory."
        ),
    ] = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one JSON document.")] = False,
) -> None:
    """Serve a model: a page to drop photos on, and an HTTP API.

    Ctrl-C answers open requests and stops. SIGHUP loads the model again from its folder without dropping a request.
    Uploads are never kept.
    """
    from finegraph.web.extra import check_extra

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
    from finegraph.cli.qr_code import print_qr_code, sign_in_link
    from finegraph.web.addresses import reachable
    from finegraph.web.security import is_loopback
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
