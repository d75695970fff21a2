"""``python -m tools.chaos [PART ...] [--minutes M]``: go on with the campaign."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tools.chaos import campaign
from tools.chaos.campaign import NAMES, Book, part


def main() -> int:
    """Try rounds of the parts in turn; returns 1 where one of these found a fault."""
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(NAMES)}; all")
    parser.add_argument("--minutes", type=float, help="stop then; by default when all is tried")
    parser.add_argument("--results", type=Path, default=campaign.RESULTS, help="where they lie")
    parser.add_argument("--anew", action="store_true", help="forget what was found so far")
    options = parser.parse_args()
    for name in set(options.parts) - set(NAMES):
        parser.error(f"no part {name!r}; there are {', '.join(NAMES)}")
    names = options.parts or NAMES
    books = [Book(name, options.results, anew=options.anew) for name in names]
    until = time.monotonic() + 60 * (options.minutes or 1e9)
    faults = 0
    while time.monotonic() < until:
        # the one that is furthest from being whole
        book = min(books, key=lambda book: book.rounds / part(book.name).rounds)
        whole = part(book.name).rounds
        if options.minutes is None and book.rounds >= whole:
            break
        tally = book.try_next()
        counts = ", ".join(f"{many:,} {what}" for what, many in sorted(tally.counts.items()))
        print(f"{book.name} {book.rounds}/{whole}: {counts}", flush=True)
        for kind, text in tally.faults:
            faults += 1
            print(f"  FAULT, {kind}: {text}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
