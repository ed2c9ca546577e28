"""Which store a page belongs to.

A page may outlive its server, and the next server at the same address may have another store. Edits of the page are not
meant for that one. So the page is told the identity of its store, keeps unsent edits under it, and sends it with every
edit; an edit for another store is refused. A copy of a store at another place is another store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Header

from finegraph.labelling import LabelStore
from finegraph.web.problems import ProblemError

_LENGTH = 16


def store_identity(store: LabelStore) -> str:
    """What no other store has: a digest of its place and of the time of its first action."""
    first = store.batches(before=2, limit=1)
    began = first[0].at if first else ""
    return hashlib.sha256(f"{store.place}\0{began}".encode("utf-8", "surrogateescape")).hexdigest()[:_LENGTH]


def only_for(store: LabelStore) -> Callable[[str | None], Awaitable[None]]:
    """A check that a request is for this store; one that names none is for any."""
    own = store_identity(store)

    async def check(finegraph_store: Annotated[str | None, Header()] = None) -> None:
        if finegraph_store is not None and finegraph_store != own:
            raise ProblemError(
                "conflict",
                "another store is served here now than when the page was loaded; load the page again",
                what_to_do="Load the page again.",
                store=own,
            )

    return check
